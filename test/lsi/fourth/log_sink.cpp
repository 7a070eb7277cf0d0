// Takes the log lines of many channels: buffers that grow by realloc, are rotated, read by those who follow a channel,
// and flushed by a thread of its own; important lines are sent on to subscribers, from a spool.
#include "beats.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

namespace
{

using std::string;

struct Freer {
    void operator()(char *p) const
    {
        std::free(p);
    }
};
using Text = std::unique_ptr<char, Freer>;

struct Segment {
    char *name = nullptr, *data = nullptr;
    std::size_t used = 0, room = 0;
    unsigned *offsets = nullptr;
    std::size_t lines = 0;
    std::set<string> *words = nullptr; // when it is closed, for searches
    long opened = 0;
    std::atomic<int> references{1};

    void append(const char *text, std::size_t length)
    {
        if (used + length > room) {
            room = used + length + 256 + used / 2;
            data = static_cast<char *>(std::realloc(data, room)); // site data
        }
        if (lines % 16 == 0) {
            offsets = static_cast<unsigned *>(std::realloc(offsets, (lines + 16) * sizeof *offsets)); // site offsets
        }
        offsets[lines++] = unsigned(used);
        std::memcpy(data + used, text, length);
        used += length;
    }

    void index()
    {
        words = new std::set<string>; // site words
        for (std::size_t at = 0, word = 0; at < used && words->size() < 24; at++) {
            if (data[at] == ' ' || data[at] == '\n') {
                if (at - word > 5) {
                    words->emplace(data + word, at - word); // site words
                }
                word = at + 1;
            }
        }
    }

    void release()
    {
        if (--references == 0) {
            std::free(name);
            std::free(data);
            std::free(offsets);
            delete words;
            delete this;
        }
    }
};

struct Channel {
    string name;
    std::vector<string> filters;
    Segment *active = nullptr;
    std::list<Segment *> recent;
    Text last; // line, to find repetitions
    long repeated = 0;
    std::map<string, long> modules;
};

struct Follower {
    string address;
    Channel *channel;
    Segment *segment;
    std::size_t at = 0, rate = 0;
    long leaves = 0;
    std::vector<char> window;
};

struct Subscriber {
    string name;
    std::size_t acknowledged = 0; // bytes of the spool, since the start
    std::deque<std::size_t> flight;
    bool gone = false;
};

// What is to be sent on, until all subscribers have it.
struct Spool {
    char *data = nullptr;
    std::size_t begin = 0, used = 0, room = 0, step = 0;

    void append(const char *text, std::size_t length)
    {
        if (used + length > room) {
            room = used + length + step;
            data = static_cast<char *>(std::realloc(data, room)); // site spool
        }
        std::memcpy(data + used, text, length);
        used += length;
    }

    void drop(std::size_t until)
    {
        std::memmove(data, data + (until - begin), used - (until - begin));
        used -= until - begin;
        begin = until;
        if (room > used + 4 * step) {
            room = used + step;
            data = static_cast<char *>(std::realloc(data, room)); // site spool
        }
    }
};

// Writes segments that are closed to a file, in a thread of its own.
class Flusher
{
  public:
    Flusher() : file_(std::tmpfile()), thread_([this] { loop(); })
    {
        thread_.detach();
    }

    void give(Segment *segment)
    {
        segment->references++;
        std::lock_guard<std::mutex> lock(mutex_);
        queue_.push_back(segment);
        wake_.notify_one();
    }

  private:
    std::FILE *file_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Segment *> queue_;
    std::thread thread_;

    void loop()
    {
        for (long n = 0;; n++) {
            std::unique_lock<std::mutex> lock(mutex_);
            wake_.wait(lock, [this] { return !queue_.empty(); });
            Segment *segment = queue_.front();
            queue_.pop_front();
            lock.unlock();
            string header = "segment " + string(segment->name) + " of " + std::to_string(segment->lines) + " lines\n";
            if (file_ && n % 50 == 0) {
                std::rewind(file_);
            }
            if (file_) {
                std::fwrite(header.data(), 1, header.size(), file_);
                std::fwrite(segment->data, 1, segment->used, file_);
                std::fflush(file_);
            }
            segment->release();
        }
    }
};

struct Context {
    string id;
    std::map<string, string> fields;
    std::vector<long> spans;
    long ends = 0;
};

struct Alert {
    string title;
    std::vector<string> lines;
    long ends = 0;
};

struct Upload {
    Text path;
    std::vector<std::vector<char>> parts;
    std::set<string> labels;
    long ends = 0;
};

struct Config {
    std::map<string, std::vector<string>> sections;
    std::vector<std::unique_ptr<string>> comments;
};

class Sink
{
  public:
    explicit Sink(Run &run)
        : run_(run), rate_(run.real(5, 10)), length_(run.between(20, 90)), important_(run.real(0.12, 0.3)),
          age_(long(double(run.ticks()) * (run.lookalike ? run.real(0.04, 0.07) : run.real(0.01, 0.02)))),
          keep_(std::size_t(run.between(2, 5))), readers_(run.between(8, 20)),
          stay_(double(run.ticks()) * (run.lookalike ? run.real(0.05, 0.1) : run.real(0.015, 0.04)))
    {
        crash_ = full(rate_);
        patterns_ = full(rate_ * important_ * 0.85);
        alerts_ = full(0.05);
        spool_.step = std::size_t(run.between(1024, 3072));
        reload();
        for (long i = run.between(6, 12); i > 0; i--) {
            auto channel = std::make_unique<Channel>();
            channel->name = "channel/" + word(12) + "." + std::to_string(i);
            for (long n = run.between(1, 5); n > 0; n--) {
                channel->filters.push_back("drop if module == " + word(14));
            }
            for (long n = run.between(2, 6); n > 0; n--) {
                channel->modules["module." + word(12)] = 0;
            }
            channels_.push_back(std::move(channel));
            open(*channels_.back());
        }
        for (long i = run.between(2, 4); i > 0; i--) {
            subscribers_.push_back(std::make_unique<Subscriber>());
            subscribers_.back()->name = "collector-" + word(20);
        }
        archive_ = full(double(channels_.size()) / double(age_ + 3) * 0.45);
        lag_ = std::size_t(run.lookalike ? run.between(40, 90) : run.between(4, 20));
        leaves_ = std::max(1L, long(double(run.ticks()) * run.real(0.01, 0.05)));
        old_end_ = long(double(run.ticks()) * (run.lookalike ? run.real(0.5, 0.68) : run.real(0.1, 0.4)));
        for (long i = run.between(80, 300); i > 0; i--) {
            old_.emplace_back(::strdup(("of the last run: " + word(length_)).c_str()));
        }
    }

    void turn()
    {
        if (run_.now() == old_end_) {
            old_.clear();
        }
        if (run_.now() == leaves_) {
            subscribers_.back()->gone = true;
            if (!run_.leak('b')) { // or the spool waits for it
                subscribers_.pop_back();
            }
        }
        for (long n = run_.poisson(rate_); n > 0; n--) {
            log(*channels_[std::size_t(run_.skewed(long(channels_.size())))]);
        }
        for (auto &channel : channels_) {
            if (run_.now() - channel->active->opened >= age_ + long(channel->name.size() % 5)) {
                rotate(*channel);
            }
        }
        follow();
        send();
        contexts();
        upload();
        if (run_.chance(0.4)) {
            search(word(2));
        }
        if (run_.now() % 16 == 0) {
            page();
        }
        if (run_.now() % 100 == 0) {
            reload();
        }
    }

    unsigned long sum() const
    {
        return sum_;
    }

  private:
    Run &run_;
    double rate_;
    long length_;
    double important_;
    long age_;
    std::size_t keep_;
    long readers_;
    double stay_;
    long archive_ = 0, crash_ = 0, patterns_ = 0, alerts_ = 0, leaves_ = 0, old_end_ = 0, segments_ = 0;
    std::size_t lag_ = 0;
    unsigned long sum_ = 0;
    std::unique_ptr<Config> config_;
    std::vector<std::unique_ptr<Channel>> channels_;
    std::vector<std::unique_ptr<Subscriber>> subscribers_;
    std::list<std::unique_ptr<Follower>> followers_;
    Spool spool_;
    Flusher flusher_;
    std::deque<Text> crash_lines_, archived_;
    std::unordered_map<string, long> counted_;
    std::deque<string> counted_order_;
    std::map<long, std::unique_ptr<Context>> contexts_;
    std::list<Alert> active_alerts_;
    std::list<std::unique_ptr<Upload>> uploads_;
    std::map<string, std::pair<long, std::vector<string>>> searches_;
    std::vector<Text> old_;
    Text page_;

    // How many entries fill a table that gets so many in a tick, in good time: early, or late.
    long full(double each_tick) const
    {
        double part = run_.lookalike ? run_.real(0.35, 0.6) : run_.real(0.08, 0.3);
        return std::max(8L, long(each_tick * double(run_.ticks()) * part));
    }

    string word(long length) const
    {
        string made(std::size_t(length), ' ');
        for (char &c : made) {
            c = char(run_.chance(0.1) ? ' ' : 'a' + run_.skewed(26));
        }
        return made;
    }

    void open(Channel &channel)
    {
        auto *segment = new Segment; // site segment
        segment->opened = run_.now();
        if (asprintf(&segment->name, "%s.%06ld.log", channel.name.c_str(), ++segments_) < 0) { // site name
            std::abort();
        }
        channel.active = segment;
    }

    void log(Channel &channel)
    {
        auto module = std::next(channel.modules.begin(), run_.skewed(long(channel.modules.size())));
        module->second++;
        char *line = nullptr;
        string message = word(long(std::min(12.0, run_.pareto(1, 1.7)) * double(length_)));
        bool important = run_.chance(important_), again = run_.chance(0.05), alarming = run_.chance(0.006);
        const char *level = important ? "WARNING" : "info";
        int length = asprintf(&line, "%ld %s [%s] %s\n", run_.now(), level, module->first.c_str(), message.c_str());
        if (length < 0) {
            std::abort();
        }
        Text owner(line);
        if (again && channel.last) {
            channel.repeated++;
            return;
        }
        if (channel.repeated > 0) {
            string note = "last message repeated " + std::to_string(channel.repeated) + " times\n";
            channel.active->append(note.data(), note.size());
            channel.repeated = 0;
        }
        channel.active->append(line, std::size_t(length));
        if (important) {
            spool_.append(line, std::size_t(length));
            count(message.substr(0, 10));
        }
        if (alarming) {
            Alert alert{"alert: " + message, {}, run_.now() + std::min(run_.lifetime(stay_), long(3 * stay_))};
            for (const string &filter : channel.filters) {
                alert.lines.push_back(filter + " did not drop " + module->first);
            }
            active_alerts_.push_back(std::move(alert));
        }
        channel.last.reset(::strdup(message.c_str()));
        crash_lines_.push_back(std::move(owner));
        if (long(crash_lines_.size()) > crash_) {
            crash_lines_.pop_front();
        }
    }

    void count(const string &pattern)
    {
        if (counted_[pattern]++ == 0) {
            counted_order_.push_back(pattern);
        }
        if (long(counted_order_.size()) > patterns_) {
            counted_.erase(counted_order_.front());
            counted_order_.pop_front();
        }
    }

    void rotate(Channel &channel)
    {
        channel.active->index();
        flusher_.give(channel.active);
        channel.recent.push_back(channel.active);
        open(channel);
        if (channel.recent.size() > keep_) {
            archive(*channel.recent.front());
            channel.recent.front()->release();
            channel.recent.pop_front();
        }
    }

    void archive(const Segment &segment)
    {
        Text squeezed(static_cast<char *>(std::malloc(segment.used + 1)));
        std::size_t used = 0;
        for (std::size_t i = 0; i < segment.used; i++) {
            if (segment.data[i] > 'd') {
                squeezed.get()[used++] = segment.data[i];
            }
        }
        squeezed.reset(static_cast<char *>(std::realloc(squeezed.release(), used + 1)));
        archived_.push_back(std::move(squeezed));
        if (long(archived_.size()) > archive_) {
            archived_.pop_front();
        }
    }

    void follow()
    {
        if (long(followers_.size()) < readers_ && run_.chance(0.5)) {
            auto follower = std::make_unique<Follower>();
            follower->address = "follower at 10.0.0." + std::to_string(run_.between(1, 254));
            follower->channel = channels_[std::size_t(run_.between(0, long(channels_.size()) - 1))].get();
            follower->rate = std::size_t(run_.pareto(10, 0.6));
            follower->leaves = run_.now() + std::min(run_.lifetime(stay_), long(4 * stay_));
            follower->window.reserve(std::size_t(run_.between(200, 2000)));
            follower->segment = follower->channel->active;
            follower->segment->references++;
            followers_.push_back(std::move(follower));
        }
        for (auto it = followers_.begin(); it != followers_.end();) {
            Follower &follower = **it;
            read(follower);
            if (follower.leaves > run_.now()) {
                it++;
                continue;
            }
            bool behind = follower.segment != follower.channel->active;
            if (!(behind && run_.leak('a'))) { // who is behind forgets what it has
                follower.segment->release();
            }
            it = followers_.erase(it);
        }
    }

    void read(Follower &follower)
    {
        std::size_t part = std::min(follower.rate, follower.segment->used - follower.at);
        const char *from = follower.segment->data + follower.at;
        follower.window.clear();
        follower.window.insert(follower.window.end(), from, from + std::min(part, std::size_t(3000)));
        follower.at += part;
        sum_ += part;
        if (follower.at == follower.segment->used && follower.segment != follower.channel->active) {
            follower.segment->release();
            follower.segment = follower.channel->active;
            follower.segment->references++;
            follower.at = 0;
        }
    }

    void send()
    {
        std::size_t least = spool_.begin + spool_.used;
        for (auto &subscriber : subscribers_) {
            if (!subscriber->gone) {
                subscriber->flight.push_back(spool_.begin + spool_.used);
            }
            if (subscriber->flight.size() > lag_) {
                subscriber->acknowledged = subscriber->flight.front();
                subscriber->flight.pop_front();
            }
            least = std::min(least, subscriber->acknowledged);
        }
        if (least > spool_.begin) {
            spool_.drop(least);
        }
    }

    void contexts()
    {
        if (run_.chance(0.5)) {
            auto context = std::make_unique<Context>();
            context->id = "request-" + std::to_string(run_.now()) + "-" + word(12);
            for (long n = run_.between(1, 5); n > 0; n--) {
                context->fields["field " + std::to_string(n) + " of the context"] = word(run_.between(5, 40));
            }
            context->spans.resize(std::size_t(run_.between(2, 20)));
            context->ends = run_.now() + std::min(run_.lifetime(stay_), long(4 * stay_));
            contexts_[run_.now()] = std::move(context);
        }
        for (auto it = contexts_.begin(); it != contexts_.end();) {
            it = it->second->ends <= run_.now() ? contexts_.erase(it) : std::next(it);
        }
        active_alerts_.remove_if([this](const Alert &alert) { return alert.ends <= run_.now(); });
        if (long(active_alerts_.size()) > alerts_) {
            active_alerts_.pop_front();
        }
    }

    // What was archived goes to a store elsewhere, in parts, and is forgotten when that has it.
    void upload()
    {
        if (!archived_.empty() && run_.chance(0.2)) {
            auto upload = std::make_unique<Upload>();
            upload->path.reset(::strdup(("archive/" + word(24) + ".squeezed").c_str()));
            upload->parts.resize(std::size_t(run_.between(1, 5)));
            for (auto &part : upload->parts) {
                part.assign(std::size_t(run_.between(40, 400)), 'x');
            }
            for (long n = run_.between(1, 4); n > 0; n--) {
                upload->labels.insert("label: " + word(15));
            }
            upload->ends = run_.now() + std::min(run_.lifetime(stay_), long(3 * stay_));
            uploads_.push_back(std::move(upload));
        }
        uploads_.remove_if([this](const auto &upload) { return upload->ends <= run_.now(); });
    }

    // The lines with a word, in what channels have had lately; the answer is kept for a while.
    void search(const string &wanted)
    {
        std::vector<string> lines;
        for (const auto &channel : channels_) {
            for (const Segment *segment : channel->recent) {
                for (const string &found : *segment->words) {
                    if (found.find(wanted) != string::npos && lines.size() < 8) {
                        lines.push_back(string(segment->name) + ": " + found);
                    }
                }
            }
        }
        searches_["lines with the word " + wanted] = {run_.now() + run_.between(5, 40), std::move(lines)};
        for (auto it = searches_.begin(); it != searches_.end();) {
            it = it->second.first <= run_.now() ? searches_.erase(it) : std::next(it);
        }
    }

    void page()
    {
        char *text = nullptr;
        std::size_t size = 0;
        std::FILE *stream = open_memstream(&text, &size);
        for (const auto &channel : channels_) {
            std::fprintf(stream, "%s: %zu\n", channel->name.c_str(), channel->active->lines);
            for (const auto &module : channel->modules) {
                std::fprintf(stream, "    %s: %ld\n", module.first.c_str(), module.second);
            }
        }
        std::fclose(stream);
        sum_ += size;
        page_.reset(text);
    }

    void reload()
    {
        auto config = std::make_unique<Config>();
        for (long i = run_.between(5, 9); i > 0; i--) {
            auto &section = config->sections["section-" + std::to_string(i) + "-" + word(10)];
            for (long n = run_.between(2, 8); n > 0; n--) {
                section.push_back("key." + std::to_string(n) + " = " + word(20));
            }
            config->comments.push_back(std::make_unique<string>("# " + word(30)));
        }
        config_ = std::move(config);
    }
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    auto sink = std::make_unique<Sink>(run);
    while (run.tick()) {
        sink->turn();
    }
    run.end(sink->sum());
}
