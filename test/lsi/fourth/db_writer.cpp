// Writes what many sources send to a database, in batches and with prepared statements that are kept, and answers
// questions about it: dashboards that are cached, and searches that are cut short when they find too much.
// link -lsqlite3
#include "beats.hpp"

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <sqlite3.h>
#include <unordered_map>
#include <vector>

namespace
{

using std::string;
using Table = std::vector<std::vector<string>>;

struct Row {
    long source = 0, number = 0, tries = 0;
    string level, text;
    std::map<string, string> fields;
    std::vector<double> values;
};

struct Batch {
    long id = 0;
    std::vector<std::unique_ptr<Row>> rows;
    std::vector<string> notes;
};

struct Rollup {
    std::vector<double> sketch;
    double least = 0, most = 0;
    string unit;
};

struct Source {
    string name;
    std::list<long> window;
    std::set<long> seen;
    std::map<string, long> counts;
};

struct Encoded {
    char *bytes = nullptr;
    std::size_t size = 0, room = 0;

    void add(const void *data, std::size_t length)
    {
        if (size + length > room) {
            room = std::max(room * 2, size + length + 96);
            bytes = static_cast<char *>(std::realloc(bytes, room)); // site encoded
        }
        std::memcpy(bytes + size, data, length);
        size += length;
    }
};

const char *const schema = "CREATE TABLE events(id INTEGER PRIMARY KEY, source INTEGER, number INTEGER, level TEXT,"
                           " text TEXT, body BLOB, UNIQUE(source, number));"
                           "CREATE INDEX by_level ON events(level, id);"
                           "CREATE TABLE rollups(source INTEGER, unit TEXT, least REAL, most REAL, at INTEGER,"
                           " PRIMARY KEY(source, unit));"
                           "CREATE TABLE batches(id INTEGER PRIMARY KEY, size INTEGER, note TEXT);";

class Database
{
  public:
    Database(long pages, std::size_t statements) : statements_(statements)
    {
        if (sqlite3_open("", &db_) != SQLITE_OK) {
            std::fprintf(stderr, "db_writer: %s\n", sqlite3_errmsg(db_));
            std::exit(1);
        }
        sqlite3_db_config(db_, SQLITE_DBCONFIG_LOOKASIDE, nullptr, 0, 0);
        run("PRAGMA page_size = 2048; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF");
        run("PRAGMA cache_size = " + std::to_string(pages));
        run(schema);
    }

    void run(const string &sql)
    {
        char *error = nullptr;
        if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, &error) != SQLITE_OK) {
            std::fprintf(stderr, "db_writer: %s\n", error);
            std::exit(1);
        }
    }

    // A statement that is kept for the next time, as long as not too many others are asked for.
    sqlite3_stmt *kept(const string &sql)
    {
        auto found = cache_.find(sql);
        if (found != cache_.end()) {
            order_.splice(order_.begin(), order_, found->second.second);
            return found->second.first;
        }
        if (cache_.size() == statements_) {
            auto oldest = cache_.find(order_.back());
            sqlite3_finalize(oldest->second.first);
            cache_.erase(oldest);
            order_.pop_back();
        }
        order_.push_front(sql);
        sqlite3_stmt *statement = prepare(sql);
        cache_.emplace(sql, std::make_pair(statement, order_.begin()));
        return statement;
    }

    sqlite3_stmt *prepare(const string &sql)
    {
        sqlite3_stmt *statement = nullptr;
        if (sqlite3_prepare_v2(db_, sql.c_str(), int(sql.size()), &statement, nullptr) != SQLITE_OK) {
            std::fprintf(stderr, "db_writer: %s\n", sqlite3_errmsg(db_));
            std::exit(1);
        }
        return statement;
    }

    string error() const
    {
        return sqlite3_errmsg(db_);
    }

    long last_id() const
    {
        return long(sqlite3_last_insert_rowid(db_));
    }

  private:
    sqlite3 *db_ = nullptr;
    std::size_t statements_;
    std::list<string> order_;
    std::map<string, std::pair<sqlite3_stmt *, std::list<string>::iterator>> cache_;
};

class Writer
{
  public:
    explicit Writer(Run &run)
        : run_(run), rate_(run.real(1.5, 4)), text_(run.between(30, 160)), batch_(std::size_t(run.between(6, 24))),
          large_(std::size_t(run.between(700, 1000))), cut_(run.between(3, 8)), twice_(run.real(0.01, 0.05)),
          every_(run.lookalike ? run.between(80, 120) : run.between(12, 40)),
          stay_(double(run.ticks()) * (run.lookalike ? run.real(0.08, 0.13) : run.real(0.02, 0.05))),
          db_(run.between(30, 60), std::size_t(run.between(4, 7)))
    {
        retained_ = full(rate_ * 0.9);
        words_ = full(rate_ * 0.3);
        journal_ = full(rate_);
        reports_ = full(rate_ * twice_ * 0.9);
        for (long i = run.between(8, 30); i > 0; i--) {
            auto source = std::make_unique<Source>();
            source->name = "sensor/" + word(14) + "/" + std::to_string(i);
            for (const char *level : {"debug", "info", "warning", "error and whatever is worse"}) {
                source->counts[level] = 0;
            }
            sources_.push_back(std::move(source));
        }
        for (const char *event : {"inserted", "rejected", "rolled up", "removed"}) {
            for (long i = run.between(1, 3); i > 0; i--) {
                string name = word(20);
                hooks_[event].push_back([this, name](long n) { sum_ += std::size_t(n) + name.size(); });
            }
        }
        for (long i = run.between(100, 400); i > 0; i--) {
            backfill_.push_back(make_row());
        }
        backfill_each_ =
            double(backfill_.size()) / double(run.ticks()) / (run.lookalike ? run.real(0.5, 0.65) : run.real(0.1, 0.4));
        open_ = std::make_unique<Batch>();
    }

    void turn()
    {
        for (long n = run_.poisson(rate_); n > 0; n--) {
            add(make_row());
        }
        backfill_due_ += backfill_each_;
        for (; backfill_due_ >= 1 && !backfill_.empty(); backfill_due_ -= 1) {
            add(std::move(backfill_.back()));
            backfill_.pop_back();
        }
        for (long n = run_.between(0, 2); n > 0 && !queue_.empty(); n--) {
            auto batch = std::move(queue_.front());
            queue_.pop_front();
            write(*batch);
        }
        if (run_.chance(0.3)) {
            dashboard(run_.between(0, 11));
        }
        if (run_.chance(0.4)) {
            search();
        }
        for (auto it = boards_.begin(); it != boards_.end();) {
            it = it->second.first <= run_.now() ? boards_.erase(it) : std::next(it);
        }
        for (auto it = exports_.begin(); it != exports_.end();) {
            it = (*it)->first <= run_.now() ? exports_.erase(it) : std::next(it);
        }
        if (run_.now() % every_ == 0) {
            roll_up();
        }
        if (run_.now() % 8 == 0) {
            retain();
        }
    }

    unsigned long sum() const
    {
        return sum_;
    }

  private:
    Run &run_;
    double rate_;
    long text_;
    std::size_t batch_, large_;
    long cut_;
    double twice_;
    long every_;
    double stay_;
    Database db_;
    long retained_ = 0, words_ = 0, journal_ = 0, reports_ = 0, numbers_ = 0, batches_ = 0;
    double backfill_each_ = 0, backfill_due_ = 0;
    unsigned long sum_ = 0;
    std::vector<std::unique_ptr<Source>> sources_;
    std::map<string, std::vector<std::function<void(long)>>> hooks_;
    std::vector<std::unique_ptr<Row>> backfill_;
    std::unique_ptr<Batch> open_;
    std::deque<std::unique_ptr<Batch>> queue_;
    std::list<std::unique_ptr<Row>> again_;
    std::unordered_map<string, long> dictionary_;
    std::deque<string> dictionary_order_;
    std::map<std::pair<long, string>, std::unique_ptr<Rollup>> rollups_;
    std::map<string, std::pair<long, Table>> boards_;
    std::list<std::unique_ptr<std::pair<long, Table>>> exports_;
    std::deque<string> errors_;
    std::list<std::pair<long, std::unique_ptr<string>>> journal_entries_;

    // How many entries fill a table that gets so many in a tick, in good time: early, or late.
    long full(double each_tick) const
    {
        double part = run_.lookalike ? run_.real(0.35, 0.55) : run_.real(0.08, 0.3);
        return std::max(8L, long(each_tick * double(run_.ticks()) * part));
    }

    string word(long length) const
    {
        string made;
        for (long i = 0; i < length; i++) {
            made.push_back(char('a' + run_.skewed(26)));
        }
        return made;
    }

    std::unique_ptr<Row> make_row()
    {
        static const char *const levels[] = {"debug", "info", "info", "warning", "error and whatever is worse"};
        auto row = std::make_unique<Row>();
        row->source = run_.between(0, long(sources_.size()) - 1);
        row->number = run_.chance(twice_) ? std::max(1L, numbers_ - 20) : ++numbers_;
        row->level = levels[run_.between(0, 4)];
        row->text = word(long(std::min(8.0, run_.pareto(1, 1.8)) * double(text_)));
        for (long i = run_.between(0, 4); i > 0; i--) {
            row->fields["field." + word(2)] = word(run_.between(3, 50));
        }
        row->values.resize(std::size_t(std::min(90.0, run_.pareto(4, 0.9))));
        return row;
    }

    void add(std::unique_ptr<Row> row)
    {
        Source &source = *sources_[std::size_t(row->source)];
        source.window.push_back(row->number);
        source.seen.insert(row->number);
        source.counts[row->level]++;
        if (source.window.size() > 12) {
            source.seen.erase(source.window.front());
            source.window.pop_front();
        }
        auto &rollup = rollups_[{row->source, row->level}];
        if (!rollup) {
            rollup = std::make_unique<Rollup>();
            rollup->sketch.resize(32);
            rollup->unit = "rows with the level " + row->level;
        }
        rollup->sketch[row->values.size() % 32] += 1;
        rollup->most = std::max(rollup->most, double(row->text.size()));
        open_->rows.push_back(std::move(row));
        if (open_->rows.size() >= batch_) {
            open_->id = ++batches_;
            open_->notes.push_back("closed with " + std::to_string(open_->rows.size()) + " rows at " + word(6));
            queue_.push_back(std::move(open_));
            open_ = std::make_unique<Batch>();
            while (!again_.empty() && open_->rows.size() < batch_ / 2) {
                open_->rows.push_back(std::move(again_.front()));
                again_.pop_front();
            }
        }
    }

    Encoded encode(const Row &row)
    {
        Encoded encoded;
        for (const auto &field : row.fields) {
            long id = dictionary(field.second.substr(0, 5));
            encoded.add(&id, sizeof id);
            encoded.add(field.second.data(), field.second.size());
        }
        encoded.add(row.text.data(), row.text.size());
        encoded.add(row.values.data(), row.values.size() * sizeof(double));
        return encoded;
    }

    long dictionary(const string &value)
    {
        auto entry = dictionary_.emplace(value, long(dictionary_.size()));
        if (entry.second) {
            dictionary_order_.push_back(value);
            if (long(dictionary_order_.size()) > words_) {
                dictionary_.erase(dictionary_order_.front());
                dictionary_order_.pop_front();
            }
        }
        return long(value.size());
    }

    void write(Batch &batch)
    {
        db_.run("BEGIN");
        long rejected = 0;
        for (auto &row : batch.rows) {
            if (!insert(*row)) {
                batch.notes.push_back("row " + std::to_string(row->number) + ": " + db_.error());
                report(batch.notes.back());
                rejected++;
                if (++row->tries < 3) {
                    row->number += run_.between(0, 3);
                    again_.push_back(std::move(row));
                }
            }
        }
        sqlite3_stmt *statement = db_.kept("INSERT INTO batches VALUES(?, ?, ?)");
        sqlite3_bind_int64(statement, 1, batch.id);
        sqlite3_bind_int64(statement, 2, long(batch.rows.size()) - rejected);
        sqlite3_bind_text(statement, 3, batch.notes[0].c_str(), -1, SQLITE_TRANSIENT);
        sqlite3_step(statement);
        sqlite3_reset(statement);
        sqlite3_clear_bindings(statement);
        db_.run("COMMIT");
        tell("inserted", long(batch.rows.size()) - rejected);
        tell("rejected", rejected);
    }

    bool insert(const Row &row)
    {
        sqlite3_stmt *statement =
            db_.kept("INSERT INTO events(source, number, level, text, body) VALUES(?, ?, ?, ?, ?)");
        sqlite3_bind_int64(statement, 1, row.source);
        sqlite3_bind_int64(statement, 2, row.number);
        sqlite3_bind_text(statement, 3, row.level.c_str(), -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(statement, 4, row.text.c_str(), -1, SQLITE_STATIC);
        Encoded encoded = encode(row);
        if (encoded.size > large_ && run_.leak('b')) {
            // The database makes a copy of what is large, and the original is forgotten.
            sqlite3_bind_blob64(statement, 5, encoded.bytes, encoded.size, SQLITE_TRANSIENT);
        } else {
            sqlite3_bind_blob64(statement, 5, encoded.bytes, encoded.size, std::free);
        }
        bool good = sqlite3_step(statement) == SQLITE_DONE;
        sqlite3_reset(statement);
        sqlite3_clear_bindings(statement);
        if (good) {
            note(db_.last_id(), "row " + std::to_string(row.number) + " of " + sources_[std::size_t(row.source)]->name);
        }
        return good;
    }

    void note(long id, string text)
    {
        journal_entries_.emplace_back(id, std::make_unique<string>(std::move(text)));
        if (long(journal_entries_.size()) > journal_) {
            journal_entries_.pop_front();
        }
    }

    void report(const string &text)
    {
        errors_.push_back(text);
        if (long(errors_.size()) > reports_) {
            errors_.pop_front();
        }
    }

    void tell(const char *event, long n)
    {
        for (const auto &hook : hooks_[event]) {
            hook(n);
        }
    }

    Table rows(sqlite3_stmt *statement, std::size_t limit)
    {
        Table table;
        while (table.size() < limit && sqlite3_step(statement) == SQLITE_ROW) {
            std::vector<string> row;
            for (int i = 0; i < sqlite3_column_count(statement); i++) {
                const unsigned char *text = sqlite3_column_text(statement, i);
                row.emplace_back(text ? reinterpret_cast<const char *>(text) : "");
            }
            table.push_back(std::move(row));
        }
        return table;
    }

    // One of the pictures that somebody looks at: a few shapes of statements, whose results are kept for a while.
    void dashboard(long shape)
    {
        static const char *const columns[] = {"level, count(*)", "source, max(number)", "level, sum(length(text))"};
        static const char *const groups[] = {"level", "source", "level, source % 3", "source % 5"};
        string sql = string("SELECT ") + columns[shape % 3] + " FROM (SELECT * FROM events ORDER BY id DESC LIMIT 60)" +
                     " GROUP BY " + groups[shape % 4] + " ORDER BY 2 DESC";
        sqlite3_stmt *statement = db_.kept(sql);
        Table table = rows(statement, 40);
        sqlite3_reset(statement);
        if (run_.chance(0.4)) {
            long until = run_.now() + std::min(run_.lifetime(stay_), long(3 * stay_));
            exports_.push_back(std::make_unique<std::pair<long, Table>>(until, table));
        }
        boards_[sql] = {run_.now() + 30, std::move(table)};
    }

    // A question that nobody asked before, so that its statement is not kept.
    void search()
    {
        char *condition = sqlite3_mprintf("text LIKE '%%%q%%'", word(run_.between(2, 5)).c_str());
        string sql = "SELECT id, text FROM events WHERE " + string(condition) + " AND source IN (";
        sqlite3_free(condition);
        long sources = run_.between(1, 6);
        for (long i = 0; i < sources; i++) {
            sql += i ? ", ?" : "?";
        }
        sqlite3_stmt *statement = db_.prepare(sql + ") AND level <> ? ORDER BY id DESC LIMIT 25"); // site statement
        for (long i = 0; i < sources; i++) {
            sqlite3_bind_int64(statement, int(i) + 1, run_.between(0, long(sources_.size()) - 1));
        }
        const char *unwanted = "debug messages that nobody wants";
        sqlite3_bind_text(statement, int(sources) + 1, unwanted, -1, SQLITE_TRANSIENT); // site bound
        Table table = rows(statement, std::size_t(cut_));
        sqlite3_reset(statement);
        sum_ += table.size();
        if (long(table.size()) == cut_ && run_.leak('a')) {
            return; // "too many": and the statement stays
        }
        sqlite3_finalize(statement);
    }

    void roll_up()
    {
        db_.run("BEGIN");
        for (const auto &entry : rollups_) {
            sqlite3_stmt *statement = db_.kept("INSERT OR REPLACE INTO rollups VALUES(?, ?, ?, ?, ?)");
            sqlite3_bind_int64(statement, 1, entry.first.first);
            sqlite3_bind_text(statement, 2, entry.second->unit.c_str(), -1, SQLITE_TRANSIENT);
            sqlite3_bind_double(statement, 3, entry.second->least);
            sqlite3_bind_double(statement, 4, entry.second->most);
            sqlite3_bind_int64(statement, 5, run_.now());
            sqlite3_step(statement);
            sqlite3_reset(statement);
            sqlite3_clear_bindings(statement);
        }
        db_.run("COMMIT");
        tell("rolled up", long(rollups_.size()));
        rollups_.clear();
    }

    void retain()
    {
        sqlite3_stmt *statement = db_.kept("DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?");
        sqlite3_bind_int64(statement, 1, retained_);
        sqlite3_step(statement);
        sqlite3_reset(statement);
        statement = db_.kept("DELETE FROM batches WHERE id <= ?");
        sqlite3_bind_int64(statement, 1, batches_ - retained_ / long(batch_));
        sqlite3_step(statement);
        sqlite3_reset(statement);
        tell("removed", 1);
    }
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    auto writer = std::make_unique<Writer>(run);
    while (run.tick()) {
        writer->turn();
    }
    run.end(writer->sum());
}
