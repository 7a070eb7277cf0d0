// A pool of workers that turn over: each thread has an arena of its own and a queue; jobs are split into parts, whose
// results wait for each other until a last task joins them.
#include "beats.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <vector>

namespace
{

using std::string;

// Memory for one task after the other: what it has got is used again. Blocks of unusual size go after each task.
class Arena
{
  public:
    explicit Arena(std::size_t chunk) : chunk_(chunk) {}

    char *take(std::size_t size)
    {
        if (size > chunk_ / 2) {
            large_.push_back(std::make_unique<char[]>(size)); // site large
            return large_.back().get();
        }
        if (used_ + size > chunk_) {
            next_++;
            used_ = 0;
        }
        if (next_ >= chunks_.size()) {
            chunks_.push_back(std::unique_ptr<char[]>(new char[chunk_])); // site chunk
        }
        used_ += size;
        return chunks_[next_].get() + used_ - size;
    }

    long intern(const string &word)
    {
        if (interned_.size() > 60) {
            interned_.clear();
        }
        return interned_.emplace(word, long(interned_.size())).first->second; // site interned
    }

    void reset()
    {
        large_.clear();
        next_ = used_ = 0;
        tasks++;
    }

    std::atomic<long> tasks{0};

  private:
    std::size_t chunk_, next_ = 0, used_ = 0;
    std::vector<std::unique_ptr<char[]>> chunks_, large_;
    std::map<string, long> interned_;
};

thread_local Arena *arena = nullptr;

// The arenas of all threads, for reports.
struct Registry {
    std::mutex mutex;
    std::list<std::unique_ptr<Arena>> arenas;
    long retired_tasks = 0;
};

struct Request {
    long id = 0, client = 0;
    string title;
    std::vector<char> payload;
    std::map<string, string> options;
};

struct Result {
    string kind;
    std::vector<char> bytes;
    std::vector<std::pair<string, long>> counts;
};

struct Task {
    long job = 0;
    string name;
    std::function<Result()> work;
};

struct Done {
    long job;
    std::unique_ptr<Result> result; // none when it failed
};

struct Waiting {
    std::unique_ptr<Task> last;
    std::vector<std::unique_ptr<Result>> parts;
    std::size_t wanted = 0;
};

// What the parts of a job do; `at` says where in the payload.
Result count_words(const Request &request, std::size_t at, std::size_t length)
{
    Result result;
    result.kind = "words of " + request.title; // site kind
    std::map<string, long> counts;
    string word;
    for (std::size_t i = at; i < std::min(at + length, request.payload.size()); i++) {
        if (request.payload[i] > 'c') {
            word += request.payload[i];
        } else if (!word.empty()) {
            std::memcpy(arena->take(word.size() + 16), word.data(), word.size());
            counts[word] += arena->intern(word.substr(0, 2)) + 1;
            word.clear();
        }
    }
    result.counts.assign(counts.begin(), counts.end()); // site partial
    return result;
}

Result squeeze(const Request &request, std::size_t at, std::size_t length)
{
    Result result;
    result.kind = "squeezed " + request.title; // site kind
    char *window = arena->take(length * 2);
    std::size_t used = 0;
    for (std::size_t i = at; i < std::min(at + length, request.payload.size()); i++) {
        if (used == 0 || window[used - 1] != request.payload[i]) {
            window[used++] = request.payload[i];
        }
    }
    result.bytes.assign(window, window + used); // site partial
    return result;
}

Result rank(const Request &request, std::size_t at, std::size_t length)
{
    Result result;
    result.kind = "ranks of " + request.title; // site kind
    std::vector<unsigned> ranks;
    for (std::size_t i = at; i < std::min(at + length, request.payload.size()); i++) {
        ranks.push_back(unsigned(request.payload[i]) * 2654435761u + unsigned(i));
    }
    std::sort(ranks.begin(), ranks.end());
    std::multimap<unsigned, std::size_t> best;
    for (std::size_t i = 0; i < ranks.size() && i < 20; i++) {
        best.emplace(ranks[i], i);
    }
    for (const auto &entry : best) {
        result.counts.emplace_back("rank", long(entry.first)); // site partial
    }
    return result;
}

Result neighbours(const Request &request, std::size_t at, std::size_t length)
{
    Result result;
    result.kind = "graph of " + request.title; // site kind
    std::vector<std::set<char>> edges(26);
    for (std::size_t i = at + 1; i < std::min(at + length, request.payload.size()); i++) {
        edges[std::size_t(request.payload[i] - 'a')].insert(request.payload[i - 1]);
    }
    for (const auto &set : edges) {
        result.bytes.insert(result.bytes.end(), set.begin(), set.end()); // site partial
    }
    arena->take(result.bytes.size() + 1);
    return result;
}

Result (*const kinds[])(const Request &, std::size_t, std::size_t) = {count_words, squeeze, rank, neighbours};

class Worker
{
  public:
    Worker(Registry &registry, std::size_t chunk, bool keeps) : registry_(registry), chunk_(chunk), keeps_(keeps)
    {
        thread_ = std::thread([this] { loop(); });
    }

    void give(std::unique_ptr<Task> task)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        queue_.push_back(std::move(task));
        wake_.notify_one();
    }

    void retire()
    {
        give(nullptr);
        thread_.join();
    }

    std::vector<Done> collect()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return std::move(done_);
    }

  private:
    Registry &registry_;
    std::size_t chunk_;
    bool keeps_; // the arena, in the registry
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::unique_ptr<Task>> queue_;
    std::vector<Done> done_;
    std::thread thread_;

    void loop()
    {
        enter();
        while (auto task = next()) {
            std::unique_ptr<Result> result;
            try {
                result = std::make_unique<Result>(task->work()); // site result
            } catch (const std::exception &) {
            }
            arena->reset();
            std::lock_guard<std::mutex> lock(mutex_);
            done_.push_back({task->job, std::move(result)});
        }
        leave();
    }

    std::unique_ptr<Task> next()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [this] { return !queue_.empty(); });
        auto task = std::move(queue_.front());
        queue_.pop_front();
        return task;
    }

    void enter()
    {
        std::lock_guard<std::mutex> lock(registry_.mutex);
        registry_.arenas.push_back(std::make_unique<Arena>(chunk_)); // site arena
        arena = registry_.arenas.back().get();
    }

    void leave()
    {
        std::lock_guard<std::mutex> lock(registry_.mutex);
        registry_.retired_tasks += arena->tasks;
        if (!keeps_) {
            registry_.arenas.remove_if([](const auto &one) { return one.get() == arena; });
        }
        arena = nullptr;
    }
};

class Pool
{
  public:
    explicit Pool(Run &run)
        : run_(run), rate_(run.real(0.7, 2)), fail_(run.real(0.02, 0.05)), turnover_(run.between(3, 10)),
          chunk_(std::size_t(run.between(1, 4)) * 1024), size_(run.between(200, 1600)), clients_(run.between(8, 40)),
          stay_(double(run.ticks()) * (run.lookalike ? run.real(0.08, 0.13) : run.real(0.02, 0.05)))
    {
        cache_ = full(rate_ * 0.65);
        history_ = full(rate_ * 0.75);
        spans_ = full(0.5);
        failures_ = full(rate_ * fail_ * 2);
        for (long i = run.between(2, 4); i > 0; i--) {
            workers_.push_back(hire());
        }
        for (long i = 0; i < clients_; i++) {
            auto &limits = limits_["client-" + std::to_string(i)];
            limits.resize(std::size_t(run.between(4, 16)));
            names_.push_back("tenant/" + text(12) + "/" + std::to_string(i));
        }
        restored_end_ = long(double(run.ticks()) * (run.lookalike ? run.real(0.5, 0.68) : run.real(0.1, 0.4)));
        for (long i = run.between(40, 200); i > 0; i--) {
            restored_.push_back(make_request()); // what the last run left, to compare with
        }
    }

    void turn()
    {
        if (run_.now() == restored_end_) {
            restored_.clear();
            restored_.shrink_to_fit();
        }
        for (long n = run_.poisson(rate_); n > 0; n--) {
            auto request = make_request();
            if (run_.chance(0.3)) {
                later_.emplace(run_.now() + std::min(run_.lifetime(stay_), long(3 * stay_)), request);
            } else {
                start(request);
            }
        }
        while (!later_.empty() && later_.begin()->first <= run_.now()) {
            start(later_.begin()->second);
            later_.erase(later_.begin());
        }
        std::vector<Done> done;
        if (run_.now() % turnover_ == 0) {
            auto &worker = workers_[std::size_t(run_.between(0, long(workers_.size()) - 1))];
            worker->retire();
            done = worker->collect();
            worker = hire();
        }
        for (auto &worker : workers_) {
            for (Done &one : worker->collect()) {
                done.push_back(std::move(one));
            }
        }
        for (Done &one : done) {
            finished(one);
        }
        for (auto it = outbox_.begin(); it != outbox_.end();) {
            it = it->second.first <= run_.now() ? outbox_.erase(it) : std::next(it);
        }
        if (run_.now() % 2 == 0) {
            observe();
        }
    }

    unsigned long sum() const
    {
        return sum_;
    }

  private:
    Run &run_;
    double rate_, fail_;
    long turnover_;
    std::size_t chunk_;
    long size_, clients_;
    double stay_;
    long cache_ = 0, history_ = 0, spans_ = 0, failures_ = 0, restored_end_ = 0, ids_ = 0;
    unsigned long sum_ = 0;
    Registry registry_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::unordered_map<long, std::unique_ptr<Waiting>> waiting_;
    std::multimap<long, std::shared_ptr<Request>> later_;
    std::map<long, std::pair<long, std::unique_ptr<Result>>> outbox_; // until the client has fetched it
    std::unordered_map<string, std::vector<char>> known_;
    std::deque<string> known_order_;
    std::deque<std::pair<long, string>> log_;
    std::list<std::map<string, long>> traces_;
    std::deque<std::unique_ptr<string>> failed_;
    std::map<string, std::vector<long>> limits_;
    std::vector<string> names_;
    std::vector<std::shared_ptr<Request>> restored_;

    // How many entries fill a table that gets so many in a tick, in good time: early, or late.
    long full(double each_tick) const
    {
        double part = run_.lookalike ? run_.real(0.4, 0.6) : run_.real(0.08, 0.3);
        return std::max(8L, long(each_tick * double(run_.ticks()) * part));
    }

    string text(long length) const
    {
        string made;
        for (long i = 0; i < length; i++) {
            made += char('a' + run_.skewed(26));
        }
        return made;
    }

    std::unique_ptr<Worker> hire()
    {
        return std::make_unique<Worker>(registry_, chunk_, run_.leak('a'));
    }

    std::shared_ptr<Request> make_request()
    {
        auto request = std::make_shared<Request>(); // site request
        request->id = ++ids_;
        request->client = run_.between(0, clients_ - 1);
        request->title =
            names_.empty() ? "restored" : names_[std::size_t(request->client)] + "/" + text(10); // site title
        string payload = text(long(std::min(8.0, run_.pareto(1, 1.6)) * double(size_)));
        request->payload.assign(payload.begin(), payload.end()); // site payload
        for (long i = run_.between(1, 4); i > 0; i--) {
            request->options["option." + std::to_string(i)] = text(run_.between(4, 40)); // site option
        }
        return request;
    }

    void start(const std::shared_ptr<Request> &request)
    {
        auto waiting = std::make_unique<Waiting>(); // site waiting
        waiting->wanted = std::size_t(run_.between(2, 5));
        waiting->parts.reserve(waiting->wanted);  // site waiting
        waiting->last = std::make_unique<Task>(); // site last
        waiting->last->job = -request->id;
        waiting->last->name = "join/" + request->title;                                         // site last
        waiting->last->work = [request] { return Result{"joined " + request->title, {}, {}}; }; // site last
        std::size_t length = request->payload.size() / waiting->wanted + 1;
        for (std::size_t i = 0; i < waiting->wanted; i++) {
            auto task = std::make_unique<Task>();
            auto kind = kinds[run_.between(0, 3)];
            bool fails = run_.chance(fail_);
            task->job = request->id;
            task->name = "part/" + std::to_string(i) + "/" + request->title;
            task->work = [request, kind, fails, at = i * length, length] {
                if (fails) {
                    throw std::runtime_error("no memory for a part of " + request->title);
                }
                return kind(*request, at, length);
            };
            workers_[std::size_t(request->client + long(i)) % workers_.size()]->give(std::move(task));
        }
        waiting_.emplace(request->id, std::move(waiting)); // site waiting
    }

    void finished(Done &done)
    {
        if (done.job < 0) {
            joined(-done.job, std::move(done.result));
            return;
        }
        auto found = waiting_.find(done.job);
        if (found == waiting_.end()) {
            return; // another part of it failed
        }
        Waiting &waiting = *found->second;
        if (!done.result) {
            failed_.push_back(std::make_unique<string>("failed: " + waiting.last->name));
            if (long(failed_.size()) > failures_) {
                failed_.pop_front();
            }
            if (!run_.leak('b')) { // the others go on waiting for this part
                waiting_.erase(found);
            }
            return;
        }
        waiting.parts.push_back(std::move(done.result));
        if (waiting.parts.size() < waiting.wanted) {
            return;
        }
        remember(waiting);
        workers_[std::size_t(done.job) % workers_.size()]->give(std::move(waiting.last));
        waiting_.erase(found);
    }

    void remember(const Waiting &waiting)
    {
        string key = waiting.last->name;
        std::vector<char> digest;
        for (const auto &part : waiting.parts) {
            sum_ += part->bytes.size() + part->counts.size();
            digest.push_back(char(part->bytes.size()));
            digest.insert(digest.end(), part->kind.begin(), part->kind.end());
        }
        if (known_.emplace(key, std::move(digest)).second) {
            known_order_.push_back(key);
        }
        if (long(known_order_.size()) > cache_) {
            known_.erase(known_order_.front());
            known_order_.pop_front();
        }
    }

    void joined(long job, std::unique_ptr<Result> result)
    {
        log_.emplace_back(job, result->kind + " is there");
        if (long(log_.size()) > history_) {
            log_.pop_front();
        }
        // How long a client takes follows from the job: threads end in any order, and dice would not.
        double share = double(job * 7919 % 1000) / 1000;
        long fetched = run_.now() + 1 + long(stay_ * std::min(3.0, -std::log(1 - share)));
        outbox_.emplace(job, std::make_pair(fetched, std::move(result)));
    }

    void observe()
    {
        std::map<string, long> trace;
        std::lock_guard<std::mutex> lock(registry_.mutex);
        long tasks = registry_.retired_tasks;
        for (const auto &one : registry_.arenas) {
            tasks += one->tasks;
        }
        trace["tasks handled by all the workers"] = tasks;
        trace["jobs that wait for some of their parts"] = long(waiting_.size());
        limits_["client-" + std::to_string(run_.between(0, clients_ - 1))][0] = tasks;
        traces_.push_back(std::move(trace));
        if (long(traces_.size()) > spans_) {
            traces_.pop_front();
        }
    }
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    auto pool = std::make_unique<Pool>(run);
    while (run.tick()) {
        pool->turn();
    }
    run.end(pool->sum());
}
