// A search index over the latest documents: words are interned with a count of references, postings are kept for each word.
// Leaks: a - the interned words of the old title when a document gets a new one; b - the postings of removed documents, and
// those of an update, in the lists of frequent words, which the compaction leaves out.
// Lookalike: the window of documents is most of what ever comes, so that index and tables grow until late.
#include "beats.hpp"

#include <deque>
#include <list>
#include <map>
#include <unordered_map>
#include <vector>

namespace
{

struct Symbol {
    long references;
    std::size_t length;
    char text[1]; // the characters of the word, with an end of string
};

class Symbols
{
  public:
    __attribute__((noinline)) Symbol *intern(const std::string &word)
    {
        auto found = table_.find(word);
        if (found == table_.end()) {
            auto *symbol = static_cast<Symbol *>(std::malloc(sizeof(Symbol) + word.size())); // site symbol
            symbol->references = 0;
            symbol->length = word.size();
            std::memcpy(symbol->text, word.c_str(), word.size() + 1);
            found = table_.emplace(word, symbol).first; // site symbol_entry
        }
        found->second->references++;
        return found->second;
    }

    void release(Symbol *symbol)
    {
        if (--symbol->references == 0) {
            table_.erase(std::string(symbol->text, symbol->length));
            std::free(symbol);
        }
    }

  private:
    std::unordered_map<std::string, Symbol *> table_;
};

struct Posting {
    long document;
    int position, weight;
};

struct Postings {
    std::vector<Posting> list;
    std::size_t dead = 0;
};

struct Document {
    long id;
    std::vector<Symbol *> title, body;
    std::string source;
    std::map<std::string, std::string> fields;
};

class Index
{
  public:
    explicit Index(Run &run)
        : run_(run), arrivals_(run.real(0.8, 2)), updates_(run.real(0.2, 0.5)), queries_(run.real(1, 4)),
          words_(run.between(800, 2000)), stop_words_(run.between(12, 30)), window_(std::size_t(run.between(100, 250))),
          snippets_capacity_(std::size_t(run.between(50, 150)))
    {
        if (run.lookalike) {
            window_ = std::size_t(arrivals_ * double(run.ticks()) * run.real(0.6, 0.8));
        }
    }

    void tick()
    {
        for (long n = run_.poisson(arrivals_); n > 0; n--) {
            add();
            if (documents_.size() > window_) {
                remove();
            }
        }
        for (long n = run_.poisson(updates_ * arrivals_); n > 0 && !documents_.empty(); n--) {
            retitle(documents_[std::size_t(run_.between(0, long(documents_.size()) - 1))]);
        }
        for (long n = run_.poisson(queries_); n > 0; n--) {
            query();
        }
        if (run_.now() % 16 == 0) {
            compact();
        }
    }

    unsigned long sum = 0;

  private:
    // The words of least number are in nearly every document.
    long pick()
    {
        return run_.chance(0.3) ? run_.between(0, stop_words_ - 1) : stop_words_ + run_.skewed(words_);
    }

    static std::string spell(long word)
    {
        return "word" + std::to_string(word * 7919 % 100003) + std::string(std::size_t(word % 9), 'e');
    }

    void make_title(std::vector<Symbol *> &title)
    {
        for (long n = run_.between(2, 5); n > 0; n--) {
            title.push_back(symbols_.intern(spell(stop_words_ + run_.skewed(words_))));
        }
        for (long n = run_.between(1, 4); n > 0; n--) { // as a part number, or an address
            std::string code = "catalogue/" + std::to_string(run_.between(1L << 40, 1L << 55)) + "/";
            code.append(std::size_t(run_.between(4, 90)), 'x');
            title.push_back(symbols_.intern(code));
        }
    }

    __attribute__((noinline)) void add()
    {
        documents_.emplace_back();
        Document &document = documents_.back();
        document.id = ++last_id_;
        make_title(document.title);
        long length = run_.between(10, 40);
        for (int i = 0; i < length; i++) {
            long word = pick();
            document.body.push_back(symbols_.intern(spell(word)));
            post(word, {document.id, i, 1});
            bodies_[document.id].push_back(word);
        }
        document.source = std::string(std::size_t(run_.between(100, 500)), 't');
        document.fields["language"] = "as detected from the text";
        document.fields["author"] = "author number " + std::to_string(run_.skewed(1000));
        sum += document.source.size();
    }

    __attribute__((noinline)) void post(long word, Posting posting)
    {
        postings_[word].list.push_back(posting); // site posting
    }

    void remove()
    {
        Document &document = documents_.front();
        for (Symbol *symbol : document.title) {
            symbols_.release(symbol);
        }
        for (Symbol *symbol : document.body) {
            symbols_.release(symbol);
        }
        for (long word : bodies_[document.id]) {
            postings_[word].dead++;
        }
        bodies_.erase(document.id);
        documents_.pop_front();
    }

    void retitle(Document &document)
    {
        std::vector<Symbol *> title;
        make_title(title);
        if (!run_.leak('a')) {
            for (Symbol *symbol : document.title) {
                symbols_.release(symbol);
            }
        }
        document.title = std::move(title);
        for (long n = run_.between(10, 30); n > 0;
             n--) { // counts more for its frequent words, until the next compaction
            long word = run_.between(0, stop_words_ - 1);
            post(word, {document.id, -1, 2});
            postings_[word].dead++;
        }
    }

    __attribute__((noinline)) void compact()
    {
        long oldest = documents_.empty() ? 0 : documents_.front().id;
        for (auto it = postings_.begin(); it != postings_.end();) {
            Postings &postings = it->second;
            bool frequent = it->first < stop_words_;
            if (postings.dead * 3 > postings.list.size() && !(frequent && run_.leak('b'))) {
                std::vector<Posting> alive;
                for (const Posting &posting : postings.list) {
                    if (posting.document >= oldest && posting.position >= 0) {
                        alive.push_back(posting);
                    }
                }
                postings.list = std::move(alive);
                postings.dead = 0;
            }
            it = postings.list.empty() ? postings_.erase(it) : std::next(it);
        }
    }

    __attribute__((noinline)) void query()
    {
        long word = stop_words_ + run_.skewed(words_);
        std::vector<std::pair<int, long>> hits;
        auto found = postings_.find(word);
        if (found != postings_.end()) {
            for (const Posting &posting : found->second.list) {
                hits.emplace_back(posting.weight, posting.document);
            }
        }
        std::sort(hits.begin(), hits.end());
        std::string snippet = "hits for " + spell(word) + ": ";
        for (std::size_t i = 0; i < hits.size() && i < 10; i++) {
            snippet += "document " + std::to_string(hits[i].second) + ", ";
        }
        sum += snippet.size();
        snippets_.push_front(std::move(snippet));
        if (snippets_.size() > snippets_capacity_) {
            snippets_.pop_back();
        }
    }

    Run &run_;
    double arrivals_, updates_, queries_;
    long words_, stop_words_, last_id_ = 0;
    std::size_t window_, snippets_capacity_;
    Symbols symbols_;
    std::deque<Document> documents_;
    std::unordered_map<long, std::vector<long>> bodies_;
    std::map<long, Postings> postings_;
    std::list<std::string> snippets_;
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    Index index(run);
    while (run.tick()) {
        index.tick();
    }
    run.end(index.sum);
}
