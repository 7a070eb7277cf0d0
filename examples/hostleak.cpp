// hostleak - a program that leaks host memory in four places, beside things that only look like it: a cache, a pool and tables
// that are made once. What it prints at the end is its own account; the report of
//
//     msmemscope --analysis=host-leaks ./hostleak
//
// says the same, and names the four places.
//
// Words: seconds to run (default 40), milliseconds between two rounds (default 100).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace
{

struct Account {
    const char *place;
    unsigned long blocks, bytes;
};

Account accounts[] = {
    {"forgotten_request", 0, 0}, {"callback_registry", 0, 0}, {"error_path", 0, 0}, {"growing_log", 0, 0}};

void *volatile last; // so that the compiler cannot leave an allocation out

void *leak(Account &account, std::size_t bytes, void *(*allocate)(std::size_t))
{
    void *block = last = allocate(bytes);
    account.blocks++;
    account.bytes += bytes;
    return block;
}

// A request that nobody deletes.
__attribute__((noinline)) void forgotten_request(int round)
{
    leak(accounts[0], 512 + round % 64, [](std::size_t n) { return ::operator new(n); });
}

// Callbacks that are entered each time and never taken out.
__attribute__((noinline)) void callback_registry()
{
    static void *last;
    void **entry = static_cast<void **>(leak(accounts[1], 96, [](std::size_t n) { return std::malloc(n); }));
    entry[0] = last;
    last = entry;
}

// A buffer that is freed, but not when something goes wrong.
__attribute__((noinline)) void error_path(int round)
{
    char *buffer = static_cast<char *>(std::malloc(8192));
    last = buffer;
    if (round % 3 == 0) {
        accounts[2].blocks++;
        accounts[2].bytes += 8192;
        return;
    }
    std::free(buffer);
}

// Lines that are kept for a reader who never comes.
__attribute__((noinline)) void growing_log(int round)
{
    leak(accounts[3], 200 + round % 7, [](std::size_t n) { return std::calloc(1, n); });
}

// Not a leak: the least recently used entries go.
class Cache
{
  public:
    void put(int key)
    {
        entries.push_front({key, std::make_unique<char[]>(4096)});
        while (entries.size() > 64)
            entries.pop_back();
    }

  private:
    std::list<std::pair<int, std::unique_ptr<char[]>>> entries;
};

// Not a leak: blocks that come back.
class Pool
{
  public:
    char *take()
    {
        if (idle.empty())
            return static_cast<char *>(std::malloc(2048));
        char *block = idle.back();
        idle.pop_back();
        return block;
    }
    void give(char *block)
    {
        idle.push_back(block);
    }

  private:
    std::vector<char *> idle;
};

} // namespace

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? std::atof(argv[1]) : 40;
    const int pause = argc > 2 ? std::atoi(argv[2]) : 100;

    auto *tables = new std::unordered_map<int, std::string>; // made once, kept to the end
    for (int i = 0; i < 2000; i++)
        tables->emplace(i, std::string(100, 'x'));
    auto *cache = new Cache;
    auto *pool = new Pool;

    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (int round = 0; std::chrono::steady_clock::now() < end; round++) {
        forgotten_request(round);
        callback_registry();
        error_path(round);
        growing_log(round);
        for (int i = 0; i < 8; i++)
            cache->put(round * 8 + i);
        std::vector<char *> taken;
        for (int i = 0; i < 10; i++)
            taken.push_back(pool->take());
        for (char *block : taken)
            pool->give(block);
        std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    }
    for (const Account &a : accounts)
        std::printf("%s %lu blocks %lu bytes\n", a.place, a.blocks, a.bytes);
    return 0;
}
