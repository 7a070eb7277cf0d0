// A message broker: producers publish, channels take messages up to a window and acknowledge them later.
// Leaks: a - a message whose acknowledgement is lost goes to the table of expired ones, which nobody reads, and not back into
// its queue; b - the frame buffer of a channel that is replaced after missed heartbeats.
// Lookalike: consumers are a little too slow, so that the queues drift up to their limit; the retained log fills late.
#include "beats.hpp"

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace
{

struct Message {
    long id;
    std::size_t topic;
    std::string key;
    std::vector<char> body;
    std::map<std::string, std::string> headers;
};

struct Topic {
    std::string name;
    double share; // of the messages
    std::size_t retention, limit;
    std::deque<Message *> ready;
    std::deque<std::string> retained;
    std::map<std::string, long> offsets; // by consumer group
};

struct Channel {
    std::size_t topic;
    std::string consumer;
    char *frame;
    std::size_t frame_size;
    std::unordered_map<long, Message *> unacked;
    std::vector<std::string> tags;
    long last_heard;
};

class Broker
{
  public:
    explicit Broker(Run &run)
        : run_(run), rate_(run.real(3, 8)), lost_(run.real(0.03, 0.08)), silence_(run.real(0.03, 0.1)),
          delay_(run.real(2, 6)), window_(std::size_t(run.between(20, 40))), limit_(std::size_t(run.between(60, 150)))
    {
        std::size_t topics = std::size_t(run.between(5, 12));
        for (std::size_t i = 0; i < topics; i++) {
            topics_.emplace_back();
            Topic &topic = topics_.back();
            topic.name = "orders.region." + std::to_string(i) + ".created";
            topic.share = std::cbrt(double(i + 1) / double(topics)) - std::cbrt(double(i) / double(topics));
            topic.retention = std::size_t(run.between(20, 60));
            topic.limit = std::min(limit_, std::size_t(rate_ * topic.share * double(run.ticks()) / 5));
            if (run.lookalike) {
                double late = run.real(0.55, 0.8);
                topic.retention = std::size_t(rate_ * topic.share * double(run.ticks()) * late);
            }
        }
        for (std::size_t i = 0; i < 3 * topics; i++) {
            channels_.push_back(open(i % topics, i));
        }
    }

    void tick()
    {
        double wave = 1 + 0.4 * std::sin(double(run_.now()) / 37);
        for (long n = run_.poisson(rate_ * wave); n > 0; n--) {
            publish();
        }
        deliver();
        for (auto it = acks_.begin(); it != acks_.end() && it->first <= run_.now(); it = acks_.erase(it)) {
            acknowledge(it->second.first, it->second.second);
        }
        for (auto it = timeouts_.begin(); it != timeouts_.end() && it->first <= run_.now(); it = timeouts_.erase(it)) {
            expire(it->second.first, it->second.second);
        }
        if (run_.chance(silence_)) {
            reconnect();
        }
        if (run_.now() % 40 == 0) {
            report();
        }
    }

    unsigned long sum = 0;

  private:
    using Due = std::multimap<long, std::pair<std::size_t, long>>; // tick to channel and message

    __attribute__((noinline)) void publish()
    {
        auto message = std::make_unique<Message>(); // site message
        message->id = ++last_id_;
        message->topic = std::size_t(run_.skewed(long(topics_.size())));
        message->key = "customer/" + std::to_string(run_.between(100000, 999999)) + "/order"; // site message_key
        message->body.resize(std::size_t(std::min(run_.pareto(200, 1.3), 6000.0)));           // site message_body
        message->headers["content-type"] = "application/json";                                // site message_header
        std::string trace = "00-" + std::to_string(run_.between(1L << 50, 1L << 60));
        message->headers["trace-parent"] = trace; // site message_header
        Topic &topic = topics_[message->topic];
        retain(topic, *message);
        topic.ready.push_back(message.release());
        if (topic.ready.size() > topic.limit) { // the oldest gives way
            delete topic.ready.front();
            topic.ready.pop_front();
        }
    }

    __attribute__((noinline)) void retain(Topic &topic, const Message &message)
    {
        topic.retained.emplace_back(message.key + ':' + std::string(message.body.begin(), message.body.begin() + 100));
        if (topic.retained.size() > topic.retention) {
            topic.retained.pop_front();
        }
    }

    void deliver()
    {
        // In the lookalike way too slow by so little that the queues reach their limit at about two thirds of the run.
        for (std::size_t i = 0; i < channels_.size(); i++) {
            Channel &channel = *channels_[i];
            Topic &topic = topics_[channel.topic];
            double lag = double(topic.limit) / (0.6 * double(run_.ticks()));
            double pace = (topic.share * rate_ - lag) / 3; // a topic has three channels
            long most = run_.lookalike ? run_.poisson(pace) : 4;
            while (most-- > 0 && !topic.ready.empty() && channel.unacked.size() < window_) {
                hand_out(i, channel, topic);
            }
        }
    }

    __attribute__((noinline)) void hand_out(std::size_t number, Channel &channel, Topic &topic)
    {
        Message *message = topic.ready.front();
        topic.ready.pop_front();
        std::size_t length = std::min(message->body.size(), channel.frame_size);
        std::memcpy(channel.frame, message->body.data(), length);
        std::string routing = topic.name + '#' + channel.consumer + '#' + message->key;
        sum += length + routing.size();
        channel.unacked.emplace(message->id, message);
        if (run_.chance(lost_)) {
            timeouts_.emplace(run_.now() + 30, std::make_pair(number, message->id));
        } else {
            acks_.emplace(run_.now() + run_.lifetime(delay_), std::make_pair(number, message->id));
        }
    }

    void acknowledge(std::size_t number, long id)
    {
        Channel &channel = *channels_[number];
        auto found = channel.unacked.find(id);
        topics_[channel.topic].offsets["group-" + channel.consumer.substr(0, 20)] = id;
        delete found->second;
        channel.unacked.erase(found);
    }

    __attribute__((noinline)) void expire(std::size_t number, long id)
    {
        Channel &channel = *channels_[number];
        auto found = channel.unacked.find(id);
        if (run_.leak('a')) {
            expired_[id] = found->second; // site expired
        } else {
            topics_[channel.topic].ready.push_front(found->second);
        }
        channel.unacked.erase(found);
    }

    __attribute__((noinline)) std::unique_ptr<Channel> open(std::size_t topic, std::size_t number)
    {
        auto channel = std::make_unique<Channel>();
        channel->topic = topic;
        channel->consumer = "consumer-of-orders-" + std::to_string(number);
        channel->frame_size = std::size_t(run_.between(4, 24)) * 1024;
        channel->frame = static_cast<char *>(std::malloc(channel->frame_size)); // site frame
        std::memset(channel->frame, 0, channel->frame_size);
        for (long n = run_.between(1, 5); n > 0; n--) {
            channel->tags.push_back("capability=" + std::to_string(n) + ",prefetch=window,protocol=0-9-1");
        }
        channel->last_heard = run_.now();
        return channel;
    }

    void reconnect()
    {
        std::size_t number = std::size_t(run_.between(0, long(channels_.size()) - 1));
        Channel &old = *channels_[number];
        auto fresh = open(old.topic, number);
        fresh->unacked.swap(old.unacked); // the session is resumed
        if (!run_.leak('b')) {
            std::free(old.frame);
        }
        channels_[number] = std::move(fresh);
    }

    __attribute__((noinline)) void report()
    {
        std::string text;
        std::vector<std::pair<std::size_t, std::string>> order;
        for (const Topic &topic : topics_) {
            order.emplace_back(topic.ready.size(), topic.name);
        }
        std::sort(order.rbegin(), order.rend());
        for (const auto &line : order) {
            text += line.second + " depth " + std::to_string(line.first) + "\n";
        }
        last_report_ = text;
        sum += text.size();
    }

    Run &run_;
    double rate_, lost_, silence_, delay_;
    std::size_t window_, limit_;
    long last_id_ = 0;
    std::deque<Topic> topics_;
    std::vector<std::unique_ptr<Channel>> channels_;
    Due acks_, timeouts_;
    std::unordered_map<long, Message *> expired_;
    std::string last_report_;
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    Broker broker(run);
    while (run.tick()) {
        broker.tick();
    }
    run.end(broker.sum);
}
