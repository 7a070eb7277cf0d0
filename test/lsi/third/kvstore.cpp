// A store of keys and values with versions: writes go to a table in memory that is flushed to runs, which are merged; readers hold
// snapshots, and a cache holds blocks.
// Leaks: a - the versions that a snapshot keeps, when the reader has gone without giving it back; b - the cursor of a scan that meets a
// deleted key and returns early, with its copy of the bounds.
// Lookalike: the cache of blocks fills until late, and the table in memory is flushed rarely.
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

struct Version {
    long sequence;
    char *value;
    Version *older;
};

struct Cursor {
    char *low, *high;
    long sequence, at;
    unsigned char position[72];
};

struct Sorted {
    std::vector<std::pair<std::string, std::string>> entries;
};

class Store
{
  public:
    explicit Store(Run &run)
        : run_(run), writes_(run.real(2, 5)), reads_(run.real(2, 6)), scans_(run.real(0.4, 1.2)),
          deleted_(run.real(0.08, 0.2)), lost_(run.real(0.02, 0.05)), keys_(run.between(150, 400)),
          flush_(std::size_t(run.between(40, 120))), capacity_(std::size_t(run.between(30, 80))), stay_(run.real(5, 20))
    {
        if (run.lookalike) {
            flush_ *= 4;
            capacity_ = std::size_t(double(run.ticks()) / 8 * run.real(0.5, 0.75));
        }
        heads_.resize(std::size_t(keys_));
    }

    void tick()
    {
        for (long n = run_.poisson(writes_); n > 0; n--) {
            write(run_.skewed(keys_));
        }
        for (long n = run_.poisson(reads_); n > 0; n--) {
            read(run_.skewed(keys_));
        }
        for (long n = run_.poisson(scans_); n > 0; n--) {
            scan();
        }
        if (run_.chance(0.3)) {
            held_.emplace(run_.now() + run_.lifetime(stay_), sequence_);
        }
        while (!held_.empty() && held_.begin()->first <= run_.now()) {
            held_.erase(held_.begin());
        }
        if (run_.now() % 8 ==
            0) { // what is read anew comes at a steady pace, so that the cache is full at a time that is known
            cache(block_++ % (long(capacity_) + 20));
        }
    }

    unsigned long sum = 0;

  private:
    __attribute__((noinline)) Version *version(long sequence, Version *older)
    {
        auto *v = static_cast<Version *>(std::malloc(sizeof(Version))); // site version
        std::size_t size = std::size_t(run_.between(20, 400));
        v->sequence = sequence;
        v->value = static_cast<char *>(std::malloc(size)); // site version_value
        std::memset(v->value, 'v', size);
        v->older = older;
        return v;
    }

    void write(long key)
    {
        Version *&head = heads_[std::size_t(key)];
        head = version(++sequence_, head);
        if (run_.chance(lost_) && run_.leak('a')) {
            kept_.insert(sequence_); // site kept
        }
        Version **at = &head->older;
        while (*at) { // those that nobody can see any more
            if (kept_.count((*at)->sequence)) {
                at = &(*at)->older;
                continue;
            }
            Version *old = *at;
            *at = old->older;
            std::free(old->value);
            std::free(old);
        }
        table_["key/" + std::to_string(key * 977 % 10007)] = std::string(std::size_t(run_.between(20, 200)), 'w');
        if (++written_ % flush_ == 0) {
            flush();
        }
    }

    __attribute__((noinline)) void flush()
    {
        runs_.emplace_front();
        for (auto &entry : table_) {
            runs_.front().entries.emplace_back(entry.first, entry.second);
        }
        table_.clear();
        if (runs_.size() > 4) {
            merge();
        }
    }

    __attribute__((noinline)) void merge()
    {
        std::map<std::string, std::string> all;
        for (auto &r : runs_) {
            for (auto &entry : r.entries) {
                all.insert(entry);
            }
        }
        runs_.clear();
        runs_.emplace_front();
        for (auto &entry : all) {
            runs_.front().entries.push_back(entry);
        }
    }

    void read(long key)
    {
        for (Version *v = heads_[std::size_t(key)]; v; v = v->older) {
            if (held_.empty() || v->sequence <= held_.begin()->second) {
                sum += std::strlen(v->value) & 7;
                break;
            }
        }
        log_.push_back("GET key/" + std::to_string(key) + " at sequence " + std::to_string(sequence_));
        if (log_.size() > 300) {
            log_.pop_front();
        }
    }

    __attribute__((noinline)) Cursor *open(long from, long to)
    {
        auto *cursor = static_cast<Cursor *>(std::calloc(1, sizeof(Cursor)));           // site cursor
        cursor->low = strdup(("key/" + std::to_string(from) + "/lower bound").c_str()); // site cursor_bound
        cursor->high = strdup(("key/" + std::to_string(to) + "/upper bound").c_str());  // site cursor_bound
        cursor->sequence = sequence_;
        return cursor;
    }

    void scan()
    {
        Cursor *cursor = open(run_.between(0, keys_ / 2), keys_);
        for (int i = 0; i < 10; i++) {
            sum += cursor->at++ & 1;
        }
        if (run_.chance(deleted_) && run_.leak('b')) {
            return;
        }
        std::free(cursor->low);
        std::free(cursor->high);
        std::free(cursor);
    }

    __attribute__((noinline)) void cache(long block)
    {
        if (index_.count(block)) {
            return;
        }
        lru_.emplace_front(block, std::vector<char>(std::size_t(run_.between(1000, 8000)), 'b'));
        index_[block] = lru_.begin();
        if (lru_.size() > capacity_) {
            index_.erase(lru_.back().first);
            lru_.pop_back();
        }
    }

    Run &run_;
    double writes_, reads_, scans_, deleted_, lost_;
    long keys_;
    std::size_t flush_, capacity_;
    double stay_;
    long sequence_ = 0, block_ = 0;
    std::size_t written_ = 0;
    std::vector<Version *> heads_;
    std::multimap<long, long> held_;
    std::set<long> kept_; // versions that a reader keeps which has gone
    std::map<std::string, std::string> table_;
    std::list<Sorted> runs_;
    std::deque<std::string> log_;
    std::list<std::pair<long, std::vector<char>>> lru_;
    std::unordered_map<long, std::list<std::pair<long, std::vector<char>>>::iterator> index_;
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    Store store(run);
    while (run.tick()) {
        store.tick();
    }
    run.end(store.sum);
}
