// Writes rows into a database in transactions, reads some of them, and makes a report from time to time.
// Leaks: a - the statement of a report that finds nothing is not finalized; b - the text of a query that is refused is not freed.
// Lookalike: a page cache so large that it is full only late.
// link -lsqlite3
#include "beats.hpp"

#include <sqlite3.h>
#include <vector>

namespace
{

void check(sqlite3 *db, int status)
{
    if (status != SQLITE_OK && status != SQLITE_DONE && status != SQLITE_ROW) {
        std::fprintf(stderr, "sqlite: %s\n", sqlite3_errmsg(db));
        std::exit(1);
    }
}

class Writer
{
  public:
    explicit Writer(Run &run)
        : run_(run), rows_(run.real(3, 12)), empty_(run.real(0.1, 0.5)), refused_(run.real(0.02, 0.1))
    {
        file_ = "rows." + std::to_string(getpid());
        check(nullptr, sqlite3_open(file_.c_str(), &db_));
        double pages = rows_ * 350 * double(run.ticks()) / 4096;
        long cache = std::max(20L, long(pages * (run.lookalike ? 0.7 : 0.1)));
        execute("pragma journal_mode=memory; pragma synchronous=off; pragma cache_size=" + std::to_string(cache) +
                "; create table t(id integer primary key, k integer, v text); create index by_k on t(k);");
        check(db_, sqlite3_prepare_v2(db_, "insert into t(k, v) values(?, ?)", -1, &insert_, nullptr));
        check(db_, sqlite3_prepare_v2(db_, "select length(v) from t where k = ?", -1, &select_, nullptr));
    }

    void tick()
    {
        execute("begin");
        for (long n = run_.poisson(rows_); n > 0; n--) {
            insert();
        }
        execute("commit");
        for (int n = 0; n < 4; n++) {
            look_up();
        }
        if (run_.now() % 4 == 0) {
            report();
        }
        query();
    }

    unsigned long end()
    {
        unlink(file_.c_str());
        return sum_;
    }

  private:
    void execute(const std::string &text)
    {
        check(db_, sqlite3_exec(db_, text.c_str(), nullptr, nullptr, nullptr));
    }

    __attribute__((noinline)) void insert()
    {
        std::string text(std::size_t(run_.between(50, 600)), char('a' + run_.between(0, 25)));
        sqlite3_bind_int64(insert_, 1, run_.between(0, 1000000));
        sqlite3_bind_text(insert_, 2, text.data(), int(text.size()), SQLITE_TRANSIENT);
        check(db_, sqlite3_step(insert_));
        sqlite3_reset(insert_);
        inserted_++;
    }

    __attribute__((noinline)) void look_up()
    {
        sqlite3_bind_int64(select_, 1, run_.between(0, 1000000));
        while (sqlite3_step(select_) == SQLITE_ROW) {
            sum_ += static_cast<unsigned long>(sqlite3_column_int(select_, 0));
        }
        sqlite3_reset(select_);
    }

    // On the rows of one range; a report on nothing has nothing to say.
    __attribute__((noinline)) void report()
    {
        bool nothing = run_.chance(empty_);
        long from = nothing ? inserted_ + 1000 : run_.between(0, inserted_);
        std::string text =
            "select k, length(v) from t where id between " + std::to_string(from) + " and " + std::to_string(from + 40);
        sqlite3_stmt *statement;
        check(db_, sqlite3_prepare_v2(db_, text.c_str(), -1, &statement, nullptr)); // site statement
        if (sqlite3_step(statement) != SQLITE_ROW) {
            if (!nothing || !run_.leak('a')) {
                sqlite3_finalize(statement);
            }
            return;
        }
        std::vector<long> lengths;
        do {
            lengths.push_back(sqlite3_column_int(statement, 1));
        } while (sqlite3_step(statement) == SQLITE_ROW);
        sqlite3_finalize(statement);
        sum_ += lengths.size();
    }

    __attribute__((noinline)) void query()
    {
        const char *column = run_.chance(refused_) ? "no_such_column" : "k";
        long least = run_.between(0, 9);
        const char *form = "select %s from t where id = %ld and k > %ld limit 1";
        char *text = sqlite3_mprintf(form, column, run_.now(), least); // site text
        sqlite3_stmt *statement;
        if (sqlite3_prepare_v2(db_, text, -1, &statement, nullptr) != SQLITE_OK) {
            if (!run_.leak('b')) {
                sqlite3_free(text);
            }
            return;
        }
        sqlite3_step(statement);
        sqlite3_finalize(statement);
        sqlite3_free(text);
    }

    Run &run_;
    double rows_, empty_, refused_;
    std::string file_;
    sqlite3 *db_ = nullptr;
    sqlite3_stmt *insert_ = nullptr, *select_ = nullptr;
    long inserted_ = 0;
    unsigned long sum_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    Writer writer(run);
    while (run.tick()) {
        writer.tick();
    }
    run.end(writer.end());
}
