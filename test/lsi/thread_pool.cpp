// Threads that work from one queue, each with an arena of its own that keeps its blocks from task to task.
// From time to time the threads are replaced; the arena of one that ends is taken over by its successor.
// Leaks: a - what is too large for a block of the arena is forgotten when the arena is reset; b - arenas are not taken over.
// Lookalike: sizes with a heavy tail, so that the arenas go on having records, each of which they keep.
#include "beats.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace
{

constexpr std::size_t block_size = 8192;

class Arena
{
  public:
    char *take(std::size_t size)
    {
        if (size > block_size) {
            large_.push_back(new char[size]); // site large
            return large_.back();
        }
        if (blocks_.empty() || used_ + size > block_size) {
            if (++current_ >= blocks_.size()) {
                blocks_.push_back(new char[block_size]); // site block
                current_ = blocks_.size() - 1;
            }
            used_ = 0;
        }
        used_ += size;
        return blocks_[current_] + used_ - size;
    }

    void reset(bool forget)
    {
        for (char *block : large_) {
            if (!forget) {
                delete[] block;
            }
        }
        large_.clear();
        current_ = used_ = 0;
    }

  private:
    std::vector<char *> blocks_, large_;
    std::size_t current_ = 0, used_ = 0;
};

thread_local Arena *arena;

class Pool
{
  public:
    Pool(std::size_t threads, bool lose, bool forget) : lose_(lose), forget_(forget)
    {
        start(threads);
    }

    void post(std::function<unsigned long()> task)
    {
        std::lock_guard<std::mutex> hold(mutex_);
        queue_.push_back(std::move(task));
        wake_.notify_one();
    }

    void replace()
    {
        std::size_t count = threads_.size();
        {
            std::lock_guard<std::mutex> hold(mutex_);
            ending_ = true;
            wake_.notify_all();
        }
        for (std::thread &thread : threads_) {
            thread.join();
        }
        threads_.clear();
        ending_ = false;
        start(count);
    }

    unsigned long sum()
    {
        std::lock_guard<std::mutex> hold(mutex_);
        return sum_;
    }

  private:
    void start(std::size_t threads)
    {
        for (std::size_t i = 0; i < threads; i++) {
            threads_.emplace_back([this] { work(); });
        }
    }

    void work()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        if (spare_.empty() || lose_) {
            arena = new Arena; // site arena
        } else {
            arena = spare_.back();
            spare_.pop_back();
        }
        for (;;) {
            wake_.wait(lock, [this] { return ending_ || !queue_.empty(); });
            if (queue_.empty()) {
                break;
            }
            std::function<unsigned long()> task = std::move(queue_.front());
            queue_.pop_front();
            lock.unlock();
            unsigned long result = task();
            arena->reset(forget_);
            lock.lock();
            sum_ += result;
        }
        if (!lose_) {
            spare_.push_back(arena);
        }
    }

    bool lose_, forget_, ending_ = false;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::function<unsigned long()>> queue_;
    std::vector<Arena *> spare_;
    std::vector<std::thread> threads_;
    unsigned long sum_ = 0;
};

// A task: some pieces of the arena are written and added up, and a report is made and thrown away.
unsigned long task(const std::vector<std::size_t> &sizes)
{
    unsigned long sum = 0;
    for (std::size_t size : sizes) {
        char *piece = arena->take(size);
        std::memset(piece, int(size), size);
        sum += static_cast<unsigned char>(piece[size / 2]);
    }
    std::vector<std::string> report;
    for (std::size_t i = 0; i < 5; i++) {
        report.push_back("a line of the report on " + std::to_string(sum + i));
    }
    return sum + report.back().size();
}

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    double rate = run.real(2, 8), large = run.real(0.003, 0.03);
    long term = run.between(20, 60); // ticks that a set of threads works
    Pool pool(std::size_t(run.between(2, 4)), run.leak('b'), run.leak('a'));
    std::vector<std::string> names;
    for (int i = 0; i < 300; i++) {
        names.push_back("the name of the kind of task with number " + std::to_string(i));
    }
    while (run.tick()) {
        if (run.now() % term == 0) {
            pool.replace();
        }
        long count = run.poisson(run.now() % term < 8 ? 3 * rate : rate); // each term begins with a burst
        for (long n = 0; n < count; n++) {
            auto sizes = std::make_shared<std::vector<std::size_t>>();
            long pieces = run.lookalike ? long(run.pareto(2, 1.2)) : run.between(2, 12);
            for (long i = 0; i < std::min(pieces, 2000L); i++) {
                sizes->push_back(std::size_t(run.between(200, 3000)));
            }
            if (run.chance(large)) {
                sizes->push_back(std::size_t(run.between(block_size + 1, 4 * block_size)));
            }
            pool.post([sizes] { return task(*sizes); });
        }
    }
    run.end(pool.sum() + names.size());
}
