// An executor of operator graphs: for each request it builds a graph, takes a plan from a cache, and computes with buffers of a
// pool.
// Leaks: a - in a fused graph a node keeps an edge to its own consumer, a cycle of shared pointers, and with it its workspace;
// b - the plan of a request with ragged input, whose key has the number of the request in it and never comes again.
// Lookalike: the load rises in steps, and the pool with it, and stays; weights of models are loaded when first asked for.
#include "beats.hpp"

#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace
{

// Buffers by power of two. What comes back is kept for the next one.
class Pool
{
  public:
    float *take(std::size_t count)
    {
        std::vector<float *> &free = free_[size_class(count)];
        if (free.empty()) {
            return grow(count);
        }
        float *buffer = free.back();
        free.pop_back();
        return buffer;
    }

    void give(float *buffer, std::size_t count)
    {
        free_[size_class(count)].push_back(buffer);
    }

  private:
    static int size_class(std::size_t count)
    {
        int bits = 8;
        while ((std::size_t(1) << bits) < count) {
            bits++;
        }
        return bits;
    }

    __attribute__((noinline)) static float *grow(std::size_t count)
    {
        return static_cast<float *>(std::calloc(std::size_t(1) << size_class(count), sizeof(float)));
    }

    std::map<int, std::vector<float *>> free_;
};

struct Node {
    std::string op;
    std::vector<std::shared_ptr<Node>> inputs;
    std::vector<std::pair<std::string, std::string>> attributes;
    std::shared_ptr<Node> epilogue; // a fused node: who consumes it
    std::vector<float> workspace;
};

struct Plan {
    std::string key;
    std::vector<int> order;
    std::vector<char> code;
};

struct Job {
    std::vector<std::pair<float *, std::size_t>> buffers;
    std::string client;
};

class Executor
{
  public:
    explicit Executor(Run &run)
        : run_(run), requests_(run.real(0.6, 1.6)), fused_(run.real(0.06, 0.16)), ragged_(run.real(0.06, 0.16)),
          duration_(run.real(4, 12)), models_(run.between(15, 40)), capacity_(std::size_t(run.between(40, 90)))
    {
        for (int i = 0; i < 150; i++) {
            kernels_["kernel_of_operator_" + std::to_string(i)] = std::vector<int>(std::size_t(8 + i % 20), i);
        }
    }

    void tick()
    {
        double load = 1 + 0.4 * std::sin(double(run_.now()) / 19);
        if (run_.lookalike) { // from a half to the whole, until three fifths of the run
            load *= 0.4 + 0.6 * std::min(1.0, std::floor(run_.progress() * 10) / 6);
        }
        for (long n = run_.poisson(requests_ * load); n > 0; n--) {
            request();
        }
        for (auto it = jobs_.begin(); it != jobs_.end() && it->first <= run_.now(); it = jobs_.erase(it)) {
            for (auto &buffer : it->second.buffers) {
                pool_.give(buffer.first, buffer.second);
            }
        }
    }

    unsigned long sum = 0;

  private:
    void request()
    {
        number_++;
        // In the lookalike way the later models are not asked for before their time.
        double known = run_.lookalike ? std::min(1.0, 0.1 + run_.progress() / 0.8) : 1.0;
        long model =
            run_.lookalike ? run_.between(0, std::max(0L, long(double(models_) * known) - 1)) : run_.skewed(models_);
        const std::vector<float> &weights = load(model);
        std::shared_ptr<Node> root = build(model);
        const Plan &plan = plan_for(model, run_.between(1, 512));
        Job job;
        job.client = "client-at-address-" + std::to_string(run_.between(0, 1 << 20));
        for (std::size_t step = 0; step < plan.order.size() / 3 + 1; step++) {
            std::size_t count = std::size_t(run_.between(200, 4000));
            float *buffer = pool_.take(count);
            buffer[0] = weights[std::size_t(number_) % weights.size()] + float(step);
            job.buffers.emplace_back(buffer, count);
        }
        sum += run_graph(*root) + job.client.size();
        jobs_.emplace(run_.now() + run_.lifetime(duration_), std::move(job));
    }

    __attribute__((noinline)) const std::vector<float> &load(long model)
    {
        auto found = weights_.find(model);
        if (found == weights_.end()) {
            found = weights_.emplace(model, std::vector<float>(std::size_t(4000 + model * 577 % 9000), 0.5f)).first;
        }
        return found->second;
    }

    __attribute__((noinline)) std::shared_ptr<Node> make_node(const char *op, long model)
    {
        auto node = std::make_shared<Node>();                                               // site node
        node->op = std::string(op) + "/of_layer/" + std::to_string(model);                  // site node_name
        node->attributes.reserve(3);                                                        // site node_attribute
        node->attributes.emplace_back("data_format", "channels_last_in_blocks_of_sixteen"); // site node_attribute
        node->attributes.emplace_back("precision_of_accumulator", "float32");               // site node_attribute
        return node;
    }

    std::shared_ptr<Node> build(long model)
    {
        static const char *const ops[] = {"matmul", "softmax", "layernorm", "gelu", "transpose", "gather"};
        std::shared_ptr<Node> last = make_node("placeholder", model);
        for (long n = run_.between(4, 10); n > 0; n--) {
            std::shared_ptr<Node> node = make_node(ops[run_.between(0, 5)], model);
            node->inputs.push_back(last); // site edge
            if (n == 1 && run_.chance(fused_)) {
                fuse(last, node);
            }
            last = node;
        }
        return last;
    }

    __attribute__((noinline)) void fuse(const std::shared_ptr<Node> &node, const std::shared_ptr<Node> &consumer)
    {
        node->op += "+" + consumer->op;                               // site node_name
        node->workspace.resize(std::size_t(run_.between(300, 3000))); // site workspace
        if (run_.leak('a')) {
            node->epilogue = consumer;
        }
    }

    static unsigned long run_graph(const Node &root)
    {
        std::vector<const Node *> stack = {&root};
        unsigned long total = 0;
        while (!stack.empty()) {
            const Node *node = stack.back();
            stack.pop_back();
            total += node->op.size() + node->workspace.size();
            for (const auto &input : node->inputs) {
                stack.push_back(input.get());
            }
        }
        return total;
    }

    const Plan &plan_for(long model, long length)
    {
        if (run_.chance(ragged_)) {
            std::string key = std::to_string(model) + ":ragged:" + std::to_string(length);
            if (!run_.leak('b')) {
                return compile_ragged(one_off_["plan"], key);
            }
            key += ":" + std::to_string(number_);
            return compile_ragged(one_off_[key], key); // site plan_entry
        }
        std::string key = std::to_string(model) + ":" + std::to_string((length + 63) / 64 * 64);
        for (auto it = plans_.begin(); it != plans_.end(); ++it) {
            if (it->key == key) {
                plans_.splice(plans_.begin(), plans_, it);
                return plans_.front();
            }
        }
        plans_.emplace_front();
        if (plans_.size() > capacity_) {
            plans_.pop_back();
        }
        return compile(plans_.front(), key);
    }

    __attribute__((noinline)) const Plan &compile_ragged(Plan &plan, const std::string &key)
    {
        Plan fresh;
        fresh.key = key + "/compiled";                              // site plan_key
        fresh.order.resize(std::size_t(run_.between(5, 15)), 1);    // site plan_order
        fresh.code.resize(std::size_t(run_.between(400, 3000)), 1); // site plan_code
        plan = std::move(fresh);
        return plan;
    }

    __attribute__((noinline)) const Plan &compile(Plan &plan, const std::string &key)
    {
        plan.key = key;
        plan.order.resize(std::size_t(run_.between(5, 15)), 2);
        plan.code.resize(std::size_t(run_.between(400, 3000)), 2);
        return plan;
    }

    Run &run_;
    double requests_, fused_, ragged_, duration_;
    long models_, number_ = 0;
    std::size_t capacity_;
    Pool pool_;
    std::map<std::string, std::vector<int>> kernels_;
    std::unordered_map<long, std::vector<float>> weights_;
    std::list<Plan> plans_;
    std::unordered_map<std::string, Plan> one_off_;
    std::multimap<long, Job> jobs_;
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    Executor executor(run);
    while (run.tick()) {
        executor.tick();
    }
    run.end(executor.sum);
}
