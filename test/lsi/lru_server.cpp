// A server with a cache of bounded size, sessions that time out, and a response per request.
// Leaks: a - the session of a client that hangs up without a word; b - the response when the client has gone meanwhile.
// Lookalike: the cache is as large as most of what is ever asked for, and fills until late.
#include "beats.hpp"

#include <list>
#include <map>
#include <unordered_map>
#include <vector>

namespace
{

struct Session {
    std::string user;
    std::vector<char> inbox;
    long expires;
};

class Cache
{
  public:
    explicit Cache(std::size_t capacity) : capacity_(capacity) {}

    const std::string &get(long key, std::size_t size)
    {
        auto found = index_.find(key);
        if (found != index_.end()) {
            order_.splice(order_.begin(), order_, found->second);
            return found->second->second;
        }
        order_.emplace_front(key, std::string(size, char('a' + key % 26)));
        index_[key] = order_.begin();
        if (order_.size() > capacity_) {
            index_.erase(order_.back().first);
            order_.pop_back();
        }
        return order_.front().second;
    }

  private:
    std::size_t capacity_;
    std::list<std::pair<long, std::string>> order_;
    std::unordered_map<long, std::list<std::pair<long, std::string>>::iterator> index_;
};

class Server
{
  public:
    explicit Server(Run &run)
        : run_(run), requests_(run.real(3, 10)), abort_(run.real(0.01, 0.06)), vanish_(run.real(0.05, 0.2)),
          arrivals_(run.real(0.4, 1.5)), stay_(run.real(15, 50)),
          keys_(run.lookalike ? long(requests_ * double(run.ticks()) / 3) : 3000),
          cache_(run.lookalike ? std::size_t(keys_) * 9 / 10 : std::size_t(run.between(150, 400)))
    {
        for (int i = 0; i < 400; i++) {
            routes_["/static/path/of/a/route/" + std::to_string(i)] = i;
        }
    }

    void tick()
    {
        // Load comes in waves of some beats.
        double wave = 1 + 0.5 * std::sin(double(run_.now()) / 23);
        for (long n = run_.poisson(arrivals_ * wave); n > 0; n--) {
            open();
        }
        for (long n = run_.poisson(requests_ * wave); n > 0; n--) {
            answer();
        }
        for (auto it = active_.begin(); it != active_.end() && it->first <= run_.now(); it = active_.erase(it)) {
            close(it->second);
        }
    }

    unsigned long sum = 0;

  private:
    __attribute__((noinline)) void open()
    {
        Session *session = new Session;                               // site session
        session->user.assign(std::size_t(run_.between(20, 60)), 'u'); // site session
        session->inbox.resize(std::size_t(run_.between(256, 2048)));  // site session
        session->expires = run_.now() + run_.lifetime(stay_);
        active_.emplace(session->expires, session);
    }

    void close(Session *session)
    {
        sum += session->inbox.size();
        bool hung_up = run_.chance(vanish_);
        if (hung_up && run_.leak('a')) {
            return; // nobody told us that it is gone
        }
        delete session;
    }

    __attribute__((noinline)) void answer()
    {
        long key = run_.lookalike ? run_.between(0, keys_ - 1) : run_.skewed(keys_);
        const std::string &page = cache_.get(key, std::size_t(200 + key * 37 % 3000));
        std::string header = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(page.size());
        char *response = new char[header.size() + page.size()]; // site response
        std::memcpy(response, header.data(), header.size());
        std::memcpy(response + header.size(), page.data(), page.size());
        sum += static_cast<unsigned char>(response[header.size()]);
        if (run_.chance(abort_) && run_.leak('b')) {
            return;
        }
        delete[] response;
    }

    Run &run_;
    double requests_, abort_, vanish_, arrivals_, stay_;
    long keys_;
    Cache cache_;
    std::map<std::string, int> routes_;
    std::multimap<long, Session *> active_;
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    Server server(run);
    while (run.tick()) {
        server.tick();
    }
    run.end(server.sum);
}
