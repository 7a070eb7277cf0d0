// An object store, as a server has it: connections with buffers of their own, an LRU cache that is bounded by bytes, an
// index of tags over it, watches on keys, and what a server keeps about itself.
#include "beats.hpp"

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

namespace
{

using std::string;

struct Object {
    string key, type;
    std::vector<char> body;
    std::vector<string> tags;
    std::map<string, string> attributes;
    long expires = 0;
};

using Order = std::list<std::unique_ptr<Object>>;

struct Connection;

struct Watch {
    string key;
    std::shared_ptr<Connection> owner; // until one of them is closed
    long events = 0;
};

struct Chunk {
    std::vector<char> bytes;
    std::size_t sent = 0;
};

struct Connection {
    string peer;
    long closes = 0;
    std::size_t rate = 0; // of sending, in bytes for each tick
    std::vector<char> in;
    std::deque<std::unique_ptr<Chunk>> out;
    std::map<string, string> headers;
    std::vector<std::shared_ptr<Watch>> watches;
    std::unique_ptr<std::vector<string>> cursor; // what a listing has still to send
};

struct Request {
    string verb, key;
    std::vector<string> words;
};

struct Slow {
    string text;
    std::vector<long> phases;
};

struct Session {
    string token;
    std::set<string> rights;
    std::vector<long> seen;
    long expires = 0;
};

const char *const verbs[] = {"GET", "GET", "GET", "GET", "PUT", "DEL", "LIST", "WATCH", "TOUCH"};
const char *const types[] = {"image/png", "text/html; charset=utf-8", "application/json", "application/octet-stream"};
const char *const names[] = {"accept",       "user-agent",    "authorization",
                             "x-request-id", "if-none-match", "x-forwarded-for"};

class Server
{
  public:
    explicit Server(Run &run)
        : run_(run), rate_(run.real(3, 8)), window_(run.between(600, 2500)), tags_(run.between(8, 40)),
          body_(run.real(150, 900)), bulk_(run.real(0.1, 0.35)), abort_(run.real(0.2, 0.5)),
          seats_(run.between(20, 60)),
          stay_(double(run.ticks()) * (run.lookalike ? run.real(0.08, 0.13) : run.real(0.02, 0.05)))
    {
        double misses = rate_ * 0.35;
        limit_ = std::size_t(full(misses, 0.9) * body_ * 1.6);
        slow_ = full(rate_ * 0.06, 1);
        backlog_ = full(rate_ * 0.2, 1);
        absent_ = full(rate_ * 0.03, 1);
        audit_ = full(rate_ * 0.12, 1);
        for (long i = 0; i < tags_; i++) {
            tag_names_.push_back("tag-" + word(run.between(4, 24)));
            quota_.emplace(tag_names_.back(), std::vector<long>(std::size_t(run.between(4, 20))));
        }
        for (const char *type : types) {
            auto &histogram = histograms_[type];
            histogram.resize(64);
        }
        for (long i = run.between(20, 80); i > 0; i--) {
            acl_.emplace_back("net-" + word(12), std::set<string>{"read", word(18), word(20)});
        }
        boot_ = std::make_unique<std::vector<string>>();
        boot_end_ = long(double(run.ticks()) * (run.lookalike ? run.real(0.5, 0.68) : run.real(0.1, 0.4)));
        for (long i = run.between(100, 500); i > 0; i--) {
            boot_->push_back("replayed " + word(40)); // the log of the last run, until all of it was checked
        }
    }

    void turn()
    {
        front_ += rate_ * 0.3;
        if (run_.now() == boot_end_) {
            boot_.reset();
        }
        accept();
        for (long n = run_.poisson(rate_); n > 0 && !connections_.empty(); n--) {
            serve(connections_[std::size_t(run_.between(0, long(connections_.size()) - 1))]);
        }
        for (std::size_t i = 0; i < connections_.size();) {
            send(*connections_[i]);
            if (connections_[i]->closes <= run_.now()) {
                close(connections_[i], run_.chance(abort_));
                connections_.erase(connections_.begin() + long(i));
            } else {
                i++;
            }
        }
        expire();
        sessions();
        if (run_.now() % 40 == 0) {
            report();
        }
    }

    unsigned long sum() const
    {
        return sum_;
    }

  private:
    Run &run_;
    double rate_;
    long window_, tags_;
    double body_, bulk_, abort_;
    long seats_;
    double stay_, front_ = 4000;
    std::size_t limit_ = 0, used_ = 0;
    long slow_ = 0, backlog_ = 0, absent_ = 0, audit_ = 0, boot_end_ = 0;
    unsigned long sum_ = 0;
    Order order_; // the last used first
    std::unordered_map<string, Order::iterator> objects_;
    std::unordered_map<string, std::set<string>> tagged_;
    std::multimap<long, string> deadlines_;
    std::vector<string> tag_names_;
    std::map<string, std::vector<long>> quota_, histograms_;
    std::vector<std::pair<string, std::set<string>>> acl_;
    std::vector<std::shared_ptr<Connection>> connections_;
    std::map<string, std::vector<std::weak_ptr<Watch>>> watched_;
    std::deque<Slow> slow_log_;
    std::deque<std::vector<char>> replicated_;
    std::map<string, long> missing_;
    std::deque<string> missing_order_;
    std::list<std::unique_ptr<string>> trail_;
    std::unordered_map<string, std::unique_ptr<Session>> logins_;
    std::unique_ptr<std::vector<string>> boot_;
    std::shared_ptr<const string> page_;

    // What fits into a table that gets so many entries in a tick, so that it is full in good time: early, or late.
    long full(double each_tick, double share) const
    {
        double part = run_.lookalike ? run_.real(0.4, 0.6) : run_.real(0.08, 0.3);
        return std::max(8L, long(each_tick * double(run_.ticks()) * part * share));
    }

    string word(long length) const
    {
        string text;
        text.reserve(std::size_t(length) + 1);
        for (long i = 0; i < length; i++) {
            text += char('a' + run_.between(0, 25));
        }
        return text;
    }

    string some_key() const
    {
        return "bucket/" + std::to_string(long(front_) - run_.skewed(window_)) + "/object";
    }

    void accept()
    {
        if (long(connections_.size()) >= seats_ || !run_.chance(0.5)) {
            return;
        }
        auto connection = std::make_shared<Connection>();                                      // site connection
        connection->peer = "10.20.30." + std::to_string(run_.between(1, 254)) + ":" + word(5); // site peer
        connection->closes = run_.now() + std::min(run_.lifetime(stay_), long(4 * stay_));
        connection->rate = std::size_t(run_.between(200, 4000));
        connection->in.reserve(std::size_t(run_.between(256, 2048))); // site input
        for (long i = run_.between(1, 6); i > 0; i--) {
            connection->headers[names[run_.between(0, 5)]] = word(run_.between(8, 60)); // site header
        }
        connections_.push_back(connection);
    }

    void close(const std::shared_ptr<Connection> &connection, bool aborted)
    {
        for (const auto &watch : connection->watches) {
            auto entry = watched_.find(watch->key);
            auto &list = entry->second;
            list.erase(std::remove_if(list.begin(), list.end(), [&](auto &w) { return w.lock() == watch; }),
                       list.end());
            if (list.empty()) {
                watched_.erase(entry);
            }
        }
        if (aborted && run_.leak('b')) {
            return; // nobody takes the watches apart: each owns the connection that owns it
        }
        connection->watches.clear();
    }

    Request parse(Connection &connection)
    {
        string line = string(verbs[run_.between(0, 8)]) + " " + some_key() + " " + word(run_.between(0, 120));
        connection.in.insert(connection.in.end(), line.begin(), line.end()); // site input
        Request request;
        for (std::size_t from = 0; from < line.size();) {
            std::size_t to = std::min(line.find(' ', from), line.size());
            request.words.push_back(line.substr(from, to - from));
            from = to + 1;
        }
        request.verb = request.words[0];
        request.key = request.words[1];
        connection.in.clear();
        return request;
    }

    void serve(const std::shared_ptr<Connection> &connection)
    {
        Request request = parse(*connection);
        sum_ += request.words.size();
        if (request.verb == "PUT") {
            store(request.key, std::min(20.0, run_.pareto(1, 1.4)) * body_, run_.chance(bulk_));
            replicate(request);
            reply(*connection, 16);
        } else if (request.verb == "DEL") {
            remove(request.key, true);
            replicate(request);
            reply(*connection, 16);
        } else if (request.verb == "LIST") {
            list(*connection);
        } else if (request.verb == "WATCH") {
            watch(connection, request.key);
        } else {
            get(*connection, request.key);
        }
        if (run_.chance(0.06)) {
            slow_log_.push_back({request.verb + " took long: " + request.key, std::vector<long>(5)});
            if (long(slow_log_.size()) > slow_) {
                slow_log_.pop_front();
            }
        }
        if (run_.chance(0.12)) {
            trail_.push_back(std::make_unique<string>("audit " + connection->peer + " " + request.key));
            if (long(trail_.size()) > audit_) {
                trail_.pop_front();
            }
        }
    }

    void get(Connection &connection, const string &key)
    {
        bool exists = run_.chance(0.85), large = run_.chance(bulk_);
        double size = std::min(20.0, run_.pareto(1, 1.4)) * body_;
        auto found = objects_.find(key);
        if (found == objects_.end() && exists) {
            store(key, size, large);
            found = objects_.find(key);
        }
        if (found == objects_.end()) {
            if (missing_.emplace(key, run_.now()).second) {
                missing_order_.push_back(key);
            }
            if (long(missing_order_.size()) > absent_) {
                missing_.erase(missing_order_.front());
                missing_order_.pop_front();
            }
            reply(connection, 48);
            return;
        }
        order_.splice(order_.begin(), order_, found->second);
        histograms_[(*found->second)->type][(*found->second)->body.size() % 64]++;
        reply(connection, (*found->second)->body.size());
    }

    void store(const string &key, double size, bool bulk)
    {
        remove(key, true);
        auto object = std::make_unique<Object>();
        object->key = key;
        object->type = types[run_.between(0, 3)];
        object->body.resize(std::size_t(size));
        object->expires = run_.now() + run_.lifetime(double(run_.ticks()) * 0.1);
        for (long i = run_.between(1, 3); i > 0; i--) {
            object->tags.push_back(tag_names_[std::size_t(run_.skewed(tags_))]);
            tagged_[object->tags.back()].insert(key); // site tagged
        }
        for (long i = run_.between(0, 2); i > 0; i--) {
            object->attributes["x-meta-" + std::to_string(i)] = word(run_.between(4, 40));
        }
        if (run_.chance(0.3)) {
            deadlines_.emplace(object->expires, key);
        }
        used_ += object->body.size();
        order_.push_front(std::move(object));
        objects_.emplace(key, order_.begin());
        while (used_ > limit_ && order_.size() > 1) {
            string last = order_.back()->key;
            remove(last, !(bulk && run_.leak('a'))); // room for what is put in bulk is made by a shorter way
        }
        notify(key);
    }

    void remove(const string &key, bool with_tags)
    {
        auto found = objects_.find(key);
        if (found == objects_.end()) {
            return;
        }
        const Object &object = **found->second;
        used_ -= object.body.size();
        for (const string &tag : object.tags) {
            auto entry = tagged_.find(tag);
            if (with_tags && entry != tagged_.end()) {
                entry->second.erase(key);
            }
        }
        order_.erase(found->second);
        objects_.erase(found);
    }

    void expire()
    {
        while (!deadlines_.empty() && deadlines_.begin()->first <= run_.now()) {
            auto found = objects_.find(deadlines_.begin()->second);
            if (found != objects_.end() && (*found->second)->expires <= run_.now()) {
                remove(deadlines_.begin()->second, true);
            }
            deadlines_.erase(deadlines_.begin());
        }
    }

    void list(Connection &connection)
    {
        const auto &keys = tagged_[tag_names_[std::size_t(run_.skewed(tags_))]];
        connection.cursor = std::make_unique<std::vector<string>>(); // site cursor
        for (const string &key : keys) {
            if (connection.cursor->size() == 12) {
                break;
            }
            connection.cursor->push_back(key); // site cursor
        }
        reply(connection, 120);
    }

    void watch(const std::shared_ptr<Connection> &connection, const string &key)
    {
        if (connection->watches.size() >= 4) {
            return;
        }
        auto watch = std::make_shared<Watch>(); // site watch
        watch->key = key;                       // site watch
        watch->owner = connection;
        connection->watches.push_back(watch); // site watch
        watched_[key].push_back(watch);
    }

    void notify(const string &key)
    {
        auto entry = watched_.find(key);
        if (entry == watched_.end()) {
            return;
        }
        for (const auto &weak : entry->second) {
            if (auto watch = weak.lock()) {
                watch->events++;
                reply(*watch->owner, 64);
            }
        }
    }

    void reply(Connection &connection, std::size_t size)
    {
        if (connection.out.size() >= 24) {
            return; // too slow a client
        }
        auto chunk = std::make_unique<Chunk>();     // site output
        chunk->bytes.resize(size + 32);             // site output
        connection.out.push_back(std::move(chunk)); // site queue
    }

    void send(Connection &connection)
    {
        for (std::size_t left = connection.rate; left > 0 && !connection.out.empty();) {
            Chunk &chunk = *connection.out.front();
            std::size_t part = std::min(left, chunk.bytes.size() - chunk.sent);
            chunk.sent += part;
            left -= part;
            sum_ += part;
            if (chunk.sent < chunk.bytes.size()) {
                break;
            }
            connection.out.pop_front();
        }
        if (connection.out.empty()) {
            connection.cursor.reset();
        }
    }

    void replicate(const Request &request)
    {
        std::vector<char> entry(request.key.begin(), request.key.end());
        entry.resize(entry.size() + std::size_t(run_.between(16, 200)));
        replicated_.push_back(std::move(entry));
        if (long(replicated_.size()) > backlog_) {
            replicated_.pop_front();
        }
    }

    void sessions()
    {
        if (run_.chance(0.4)) {
            auto session = std::make_unique<Session>();
            session->token = word(40);
            for (long i = run_.between(1, 4); i > 0; i--) {
                session->rights.insert(acl_[std::size_t(run_.between(0, long(acl_.size()) - 1))].first);
            }
            session->seen.resize(std::size_t(run_.between(2, 12)));
            session->expires = run_.now() + std::min(run_.lifetime(stay_), long(4 * stay_));
            string token = session->token;
            logins_.emplace(std::move(token), std::move(session));
        }
        for (auto it = logins_.begin(); it != logins_.end();) {
            it = it->second->expires <= run_.now() ? logins_.erase(it) : std::next(it);
        }
    }

    void report()
    {
        string text;
        for (const auto &entry : histograms_) {
            text += entry.first + " " + std::to_string(entry.second[7]) + "\n";
        }
        for (auto &entry : quota_) {
            entry.second[0] = long(tagged_[entry.first].size());
            text += entry.first + "=" + std::to_string(entry.second[0] > 0) + ";";
        }
        page_ = std::make_shared<const string>(std::move(text));
    }
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    auto server = std::make_unique<Server>(run);
    while (run.tick()) {
        server->turn();
    }
    run.end(server->sum());
}
