// Reads many mapped files of sorted keys: each has an index and a filter, the blocks that were read are cached, scans go
// over all files of a version, and compactions replace files by others.
#include "beats.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <sys/mman.h>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace
{

using std::string;
using Entries = std::map<string, string>;

struct IndexEntry {
    string first;
    std::size_t offset, length;
};

struct Table {
    long id = 0;
    string name, least;
    int file = -1;
    std::size_t size = 0;
    std::vector<IndexEntry> index;
    std::vector<std::uint64_t> filter;
    std::map<string, string> properties;

    ~Table()
    {
        ::close(file);
    }

    std::size_t block_of(const string &key) const
    {
        auto after = std::upper_bound(index.begin(), index.end(), key,
                                      [](const string &k, const IndexEntry &entry) { return k < entry.first; });
        return after == index.begin() ? 0 : std::size_t(after - index.begin()) - 1;
    }
};

struct Mapping {
    const char *data = nullptr;
    std::size_t size = 0;
    std::vector<long> touched; // how often, by page

    ~Mapping()
    {
        ::munmap(const_cast<char *>(data), size);
    }
};

struct Version {
    long id = 0;
    string comment;
    std::vector<std::shared_ptr<Table>> tables; // in the order of their keys
};

struct Block {
    std::vector<std::pair<string, string>> entries;
    std::pair<long, std::size_t> place;
    long pins = 0;
    bool cached = true;
};

struct Scan {
    string title, prefix;
    std::shared_ptr<Version> version;
    std::size_t table = 0, block = 0, row = 0, each_tick = 1;
    Block *at = nullptr;
    std::vector<string> rows; // to be sent
    std::unique_ptr<std::set<string>> filter;
    long leaves = 0;
};

struct Compaction {
    string reason;
    std::vector<std::shared_ptr<Table>> inputs;
    std::vector<string> borders;
    long told = 0;
};

struct Client {
    string name;
    std::vector<string> bookmarks;
    std::map<string, long> ranges;
    std::vector<char> answer;
    long leaves = 0;
};

// The files that are mapped now; the one that was used last comes first.
class Maps
{
  public:
    explicit Maps(std::size_t most) : most_(most) {}

    Mapping &get(const Table &table)
    {
        auto found = open_.find(table.id);
        if (found != open_.end()) {
            order_.splice(order_.begin(), order_, found->second.second);
            return *found->second.first;
        }
        if (open_.size() == most_) {
            drop(order_.back());
        }
        auto mapping = std::make_unique<Mapping>();
        void *data = ::mmap(nullptr, table.size, PROT_READ, MAP_SHARED, table.file, 0);
        if (data == MAP_FAILED) {
            std::perror("map_reader: mmap");
            std::exit(1);
        }
        mapping->data = static_cast<const char *>(data);
        mapping->size = table.size;
        mapping->touched.resize(table.size / 1024 + 1);
        order_.push_front(table.id);
        return *open_.emplace(table.id, std::make_pair(std::move(mapping), order_.begin())).first->second.first;
    }

    void drop(long id)
    {
        auto found = open_.find(id);
        if (found != open_.end()) {
            order_.erase(found->second.second);
            open_.erase(found);
        }
    }

  private:
    std::size_t most_;
    std::list<long> order_;
    std::unordered_map<long, std::pair<std::unique_ptr<Mapping>, std::list<long>::iterator>> open_;
};

// Blocks that were decoded. Who pins one keeps it, even if it is no more in the cache.
class Blocks
{
  public:
    Blocks(std::size_t most, Maps &maps) : most_(most), maps_(maps) {}

    Block *pin(const Table &table, std::size_t number)
    {
        std::pair<long, std::size_t> place(table.id, number);
        auto found = cached_.find(place);
        if (found == cached_.end()) {
            if (cached_.size() >= most_) {
                drop(order_.back());
            }
            order_.push_front(place);
            found = cached_.emplace(place, std::make_pair(decode(table, number), order_.begin())).first;
        }
        order_.splice(order_.begin(), order_, found->second.second);
        found->second.first->pins++;
        return found->second.first;
    }

    void unpin(Block *block)
    {
        if (--block->pins == 0 && !block->cached) {
            delete block;
        }
    }

    void drop_table(const Table &table)
    {
        for (std::size_t i = 0; i < table.index.size(); i++) {
            if (cached_.count({table.id, i})) {
                drop({table.id, i});
            }
        }
    }

  private:
    std::size_t most_;
    Maps &maps_;
    std::list<std::pair<long, std::size_t>> order_;
    std::map<std::pair<long, std::size_t>, std::pair<Block *, decltype(order_)::iterator>> cached_;

    void drop(std::pair<long, std::size_t> place)
    {
        auto found = cached_.find(place);
        Block *block = found->second.first;
        order_.erase(found->second.second);
        cached_.erase(found);
        block->cached = false;
        if (block->pins == 0) {
            delete block;
        }
    }

    Block *decode(const Table &table, std::size_t number)
    {
        const IndexEntry &entry = table.index[number];
        Mapping &mapping = maps_.get(table);
        mapping.touched[entry.offset / 1024]++;
        auto *block = new Block; // site block
        block->place = {table.id, number};
        const char *p = mapping.data + entry.offset, *end = p + entry.length;
        while (p < end) {
            std::uint16_t sizes[2];
            std::memcpy(sizes, p, sizeof sizes);
            p += sizeof sizes;
            block->entries.emplace_back(string(p, sizes[0]), string(p + sizes[0], sizes[1])); // site entry
            p += sizes[0] + sizes[1];
        }
        return block;
    }
};

class Reader
{
  public:
    explicit Reader(Run &run)
        : run_(run), rate_(run.real(1.5, 5)), keys_(run.between(40, 120)), value_(run.between(12, 70)),
          block_(std::size_t(run.between(300, 900))), cut_(run.real(0.5, 0.8)), moved_(run.real(0.3, 0.6)),
          every_(run.between(4, 9)), scanners_(run.between(8, 24)),
          stay_(double(run.ticks()) * (run.lookalike ? run.real(0.04, 0.08) : run.real(0.01, 0.04)))
    {
        long files = run.between(16, 40);
        maps_ = std::make_unique<Maps>(std::size_t(files * run.between(30, 80) / 100));
        long blocks = files * keys_ * (value_ + 20) / long(block_);
        blocks_ = std::make_unique<Blocks>(std::max(20L, blocks * run.between(20, 50) / 100), *maps_);
        rows_ = full(rate_ * 0.25);
        missing_ = full(rate_ * 0.1);
        log_ = full(rate_ * 0.3);
        history_ = full(0.9 / double(every_));
        fresh_most_ = std::size_t(run.between(8, 40));
        version_ = std::make_shared<Version>();
        for (long i = 0; i < files; i++) {
            Entries entries;
            for (long k = 0; k < keys_; k++) {
                entries[key(i * keys_ + k)] = text(value());
            }
            version_->tables.push_back(write(entries));
        }
        listeners_.emplace_back([this](long n) { sum_ += std::size_t(n); });
        for (long i = run.between(4, 12); i > 0; i--) {
            auto &words = dictionary_["column family " + text(8)];
            for (long n = run.between(3, 12); n > 0; n--) {
                words.insert(text(run.between(6, 30)));
            }
        }
        check_end_ = long(double(run.ticks()) * (run.lookalike ? run.real(0.5, 0.68) : run.real(0.1, 0.4)));
        checks_ = std::make_unique<std::unordered_map<string, std::vector<unsigned>>>();
        for (const auto &table : version_->tables) {
            (*checks_)["checksums of " + table->name].resize(table->index.size());
        }
    }

    void turn()
    {
        if (run_.now() == check_end_) {
            checks_.reset();
        }
        clients();
        for (long n = run_.poisson(rate_); n > 0; n--) {
            look_up(some_key());
        }
        for (long n = run_.poisson(rate_ / 4); n > 0; n--) {
            update(some_key());
        }
        scans();
        if (run_.now() % every_ == 0) {
            compact();
        }
        if (run_.now() % 20 == 0) {
            statistics();
        }
    }

    unsigned long sum() const
    {
        return sum_;
    }

  private:
    Run &run_;
    double rate_;
    long keys_, value_;
    std::size_t block_;
    double cut_, moved_;
    long every_, scanners_;
    double stay_;
    long rows_ = 0, missing_ = 0, log_ = 0, history_ = 0, check_end_ = 0, ids_ = 0;
    unsigned long sum_ = 0;
    std::unique_ptr<Maps> maps_;
    std::unique_ptr<Blocks> blocks_;
    std::shared_ptr<Version> version_;
    std::list<std::unique_ptr<Scan>> open_scans_;
    std::list<std::function<void(long)>> listeners_;
    std::vector<std::unique_ptr<Client>> clients_;
    Entries fresh_; // not yet in a file
    std::size_t fresh_most_ = 0;
    std::list<std::pair<long, Entries>> flushed_; // until others have it, too
    std::unordered_map<string, string> row_cache_;
    std::deque<string> row_order_;
    std::unordered_set<string> absent_;
    std::deque<string> absent_order_;
    std::deque<std::unique_ptr<string>> queries_;
    std::deque<std::pair<string, std::vector<long>>> compactions_;
    std::map<string, std::set<string>> dictionary_;
    std::unique_ptr<std::unordered_map<string, std::vector<unsigned>>> checks_;
    std::unique_ptr<std::map<string, std::vector<double>>> statistics_;

    // How many entries fill a table that gets so many in a tick, in good time: early, or late.
    long full(double each_tick) const
    {
        double part = run_.lookalike ? run_.real(0.35, 0.55) : run_.real(0.08, 0.3);
        return std::max(8L, long(each_tick * double(run_.ticks()) * part));
    }

    string text(long length) const
    {
        string made(std::size_t(length), ' ');
        for (char &c : made) {
            c = char('a' + run_.skewed(26));
        }
        return made;
    }

    long value() const
    {
        return long(std::min(15.0, run_.pareto(1, 2)) * double(value_));
    }

    static string key(long number)
    {
        string digits = std::to_string(number);
        return "row/" + string(8 - digits.size(), '0') + digits + "/v";
    }

    // Callers are moved to this reader file by file: soon, or slowly.
    string some_key() const
    {
        double reach = std::min(1.0, 0.2 + run_.progress() / (run_.lookalike ? 0.6 : 0.1));
        return key(run_.between(0, long(reach * double(keys_ * long(version_->tables.size()))) - 1));
    }

    std::shared_ptr<Table> write(const Entries &entries)
    {
        auto table = std::make_shared<Table>(); // site table
        table->id = ++ids_;
        table->name = "data." + std::to_string(table->id) + "/" + text(12) + ".sorted"; // site name
        table->least = entries.begin()->first;
        table->filter.resize(entries.size() / 8 + 1); // site filter
        std::vector<char> bytes;
        for (const auto &entry : entries) {
            if (table->index.empty() || bytes.size() - table->index.back().offset > block_) {
                table->index.push_back({entry.first, bytes.size(), 0}); // site index
            }
            std::uint16_t sizes[2] = {std::uint16_t(entry.first.size()), std::uint16_t(entry.second.size())};
            const char *raw = reinterpret_cast<const char *>(sizes);
            bytes.insert(bytes.end(), raw, raw + sizeof sizes);
            bytes.insert(bytes.end(), entry.first.begin(), entry.first.end());
            bytes.insert(bytes.end(), entry.second.begin(), entry.second.end());
            table->index.back().length = bytes.size() - table->index.back().offset;
            std::size_t hash = std::hash<string>()(entry.first);
            table->filter[hash % table->filter.size()] |= 1ul << (hash >> 32 & 63);
        }
        table->properties["entries of the table"] = std::to_string(entries.size());    // site property
        table->properties["comparator"] = "bytewise, with versions after the key";     // site property
        table->properties["created by"] = "the job " + text(16) + " of this instance"; // site property
        table->size = bytes.size();
        const char *folder = std::getenv("TMPDIR");
        string path = string(folder ? folder : "/tmp") + "/map_reader.XXXXXX";
        table->file = ::mkstemp(&path[0]);
        ::unlink(path.c_str());
        if (table->file < 0 || ::write(table->file, bytes.data(), bytes.size()) != long(bytes.size())) {
            std::perror("map_reader: a data file");
            std::exit(1);
        }
        return table;
    }

    static std::size_t table_of(const Version &version, const string &key)
    {
        std::size_t at = 0;
        while (at + 1 < version.tables.size() && version.tables[at + 1]->least <= key) {
            at++;
        }
        return at;
    }

    void clients()
    {
        if (clients_.size() < 24 && run_.chance(0.4)) {
            auto client = std::make_unique<Client>();
            client->name = "client " + text(10) + " of the service";
            client->answer.reserve(std::size_t(run_.between(100, 900)));
            client->leaves = run_.now() + std::min(run_.lifetime(stay_), long(4 * stay_));
            clients_.push_back(std::move(client));
        }
        for (std::size_t i = 0; i < clients_.size();) {
            if (clients_[i]->leaves <= run_.now()) {
                clients_[i] = std::move(clients_.back());
                clients_.pop_back();
            } else {
                i++;
            }
        }
    }

    void serve(Client &client, const string &wanted)
    {
        client.ranges["range of " + wanted.substr(0, 10)]++;
        if (client.ranges.size() > 6) {
            client.ranges.erase(client.ranges.begin());
        }
        if (client.bookmarks.size() < 8 && run_.chance(0.3)) {
            client.bookmarks.push_back("bookmark: " + wanted);
        }
        client.answer.assign(wanted.begin(), wanted.end());
    }

    void update(const string &changed)
    {
        fresh_[changed] = text(value());
        if (fresh_.size() >= fresh_most_) {
            long until = run_.now() + std::min(run_.lifetime(stay_), long(3 * stay_));
            flushed_.emplace_back(until, std::move(fresh_));
            fresh_.clear();
        }
        flushed_.remove_if([this](const auto &one) { return one.first <= run_.now(); });
    }

    void look_up(string wanted)
    {
        if (run_.chance(0.12)) {
            wanted += "/" + text(3); // is not there
        }
        if (!clients_.empty()) {
            serve(*clients_[std::size_t(run_.between(0, long(clients_.size()) - 1))], wanted);
        }
        if (run_.chance(0.3)) {
            queries_.push_back(std::make_unique<string>("get " + wanted + " at " + std::to_string(run_.now())));
            if (long(queries_.size()) > log_) {
                queries_.pop_front();
            }
        }
        auto row = row_cache_.find(wanted);
        if (row != row_cache_.end() || absent_.count(wanted)) {
            sum_++;
            return;
        }
        const Table &table = *version_->tables[table_of(*version_, wanted)];
        std::size_t hash = std::hash<string>()(wanted);
        const string *found = nullptr;
        Block *block = nullptr;
        if (table.filter[hash % table.filter.size()] >> (hash >> 32 & 63) & 1) {
            block = blocks_->pin(table, table.block_of(wanted));
            for (const auto &entry : block->entries) {
                found = entry.first == wanted ? &entry.second : found;
            }
        }
        if (!found) {
            absent_.insert(wanted);
            absent_order_.push_back(wanted);
            if (long(absent_order_.size()) > missing_) {
                absent_.erase(absent_order_.front());
                absent_order_.pop_front();
            }
        } else if (run_.chance(0.4)) {
            row_cache_.emplace(wanted, *found);
            row_order_.push_back(wanted);
            if (long(row_order_.size()) > rows_) {
                row_cache_.erase(row_order_.front());
                row_order_.pop_front();
            }
        }
        sum_ += found ? found->size() : 1;
        if (block) {
            blocks_->unpin(block);
        }
    }

    void scans()
    {
        if (long(open_scans_.size()) < scanners_ && run_.chance(0.45)) {
            auto scan = std::make_unique<Scan>();
            scan->prefix = some_key();
            scan->title = "scan from " + scan->prefix + " for " + text(8);
            scan->version = version_;
            scan->table = table_of(*version_, scan->prefix);
            scan->block = version_->tables[scan->table]->block_of(scan->prefix);
            scan->each_tick = std::size_t(run_.between(1, 6));
            scan->filter = std::make_unique<std::set<string>>();
            for (long n = run_.between(1, 4); n > 0; n--) {
                scan->filter->insert("where column is " + text(12));
            }
            scan->leaves = run_.now() + std::min(run_.lifetime(stay_), long(4 * stay_));
            open_scans_.push_back(std::move(scan));
        }
        for (auto it = open_scans_.begin(); it != open_scans_.end();) {
            Scan &scan = **it;
            for (std::size_t n = 0; n < scan.each_tick && scan.table < scan.version->tables.size(); n++) {
                step(scan);
            }
            bool leaves = scan.leaves <= run_.now(), cut = leaves && run_.chance(cut_);
            if (scan.table < scan.version->tables.size() && !leaves) {
                it++;
                continue;
            }
            if (scan.at && !(cut && run_.leak('a'))) { // a client that hangs up leaves its block pinned
                blocks_->unpin(scan.at);
            }
            it = open_scans_.erase(it);
        }
    }

    void step(Scan &scan)
    {
        if (!scan.at) {
            scan.at = blocks_->pin(*scan.version->tables[scan.table], scan.block);
            scan.row = 0;
        }
        scan.rows.push_back(scan.at->entries[scan.row].first);
        if (scan.rows.size() == 12) {
            sum_ += scan.rows.back().size();
            scan.rows.clear();
        }
        if (++scan.row < scan.at->entries.size()) {
            return;
        }
        blocks_->unpin(scan.at);
        scan.at = nullptr;
        if (++scan.block == scan.version->tables[scan.table]->index.size()) {
            scan.block = 0;
            scan.table++;
        }
    }

    // Two neighbours become two new tables; or they are only moved, which is done without reading them.
    void compact()
    {
        std::size_t first = std::size_t(run_.between(0, long(version_->tables.size()) - 2));
        auto job = std::make_shared<Compaction>();                                           // site compaction
        job->reason = "two neighbours that overlap, by check " + std::to_string(run_.now()); // site reason
        for (std::size_t i = first; i < first + 2; i++) {
            job->inputs.push_back(version_->tables[i]);         // site inputs
            job->borders.push_back(version_->tables[i]->least); // site border
        }
        auto listener = listeners_.insert(listeners_.end(), [job](long n) { job->told += n; }); // site listener
        bool moved = run_.chance(moved_);
        auto next = std::make_shared<Version>(*version_);
        next->id++;
        next->comment = "version " + std::to_string(next->id) + " after " + job->reason;
        for (std::size_t i = first; i < first + 2; i++) {
            next->tables[i] = write(merged(*version_->tables[i]));
            blocks_->drop_table(*version_->tables[i]);
            maps_->drop(version_->tables[i]->id);
        }
        version_ = next;
        for (const auto &tell : listeners_) {
            tell(1);
        }
        compactions_.emplace_back(job->reason, std::vector<long>{job->told, long(first), run_.now()});
        if (long(compactions_.size()) > history_) {
            compactions_.pop_front();
        }
        if (moved && run_.leak('b')) {
            return; // this way out does not think of the listener
        }
        listeners_.erase(listener);
    }

    Entries merged(const Table &table)
    {
        Entries entries;
        for (std::size_t i = 0; i < table.index.size(); i++) {
            Block *block = blocks_->pin(table, i);
            for (const auto &entry : block->entries) {
                entries[entry.first] = run_.chance(0.2) ? text(value()) : entry.second;
            }
            blocks_->unpin(block);
        }
        return entries;
    }

    void statistics()
    {
        auto fresh = std::make_unique<std::map<string, std::vector<double>>>();
        for (const auto &family : dictionary_) {
            (*fresh)["of " + family.first].assign(family.second.size(), double(row_cache_.size()));
        }
        for (std::size_t i = 0; i < version_->tables.size(); i += 4) {
            (*fresh)["size of " + version_->tables[i]->name].push_back(double(version_->tables[i]->size));
        }
        statistics_ = std::move(fresh);
    }
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    auto reader = std::make_unique<Reader>(run);
    while (run.tick()) {
        reader->turn();
    }
    run.end(reader->sum());
}
