// Connections that collect lines in buffers that double, and a trail of what happened in one buffer that grows by pages.
// Leaks: a - the trail is never written out; b - the buffer of a connection that breaks off in a line.
// Lookalike: a trail with a bound, which is reached late.
#include "beats.hpp"

#include <algorithm>
#include <vector>

namespace
{

struct Buffer {
    char *text = nullptr;
    std::size_t length = 0, room = 0;
};

__attribute__((noinline)) void append_line(Buffer &buffer, const char *text, std::size_t length)
{
    if (buffer.length + length > buffer.room) {
        buffer.room = std::max(buffer.room * 2, buffer.length + length + 64);
        buffer.text = static_cast<char *>(std::realloc(buffer.text, buffer.room)); // site line
    }
    std::memcpy(buffer.text + buffer.length, text, length);
    buffer.length += length;
}

__attribute__((noinline)) void append_trail(Buffer &buffer, const char *text, std::size_t length)
{
    if (buffer.length + length > buffer.room) {
        buffer.room += 4096;
        buffer.text = static_cast<char *>(std::realloc(buffer.text, buffer.room)); // site trail
    }
    std::memcpy(buffer.text + buffer.length, text, length);
    buffer.length += length;
}

void drop(Buffer &buffer)
{
    std::free(buffer.text);
    buffer = Buffer();
}

struct Connection {
    Buffer buffer;
    long ends;
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    double arrivals = run.real(0.3, 1.2), stay = run.real(10, 40), breaks = run.real(0.04, 0.2),
           event = run.real(0.6, 1.5);
    long flush = run.between(12, 60);
    std::size_t entry = std::size_t(run.between(80, 300));
    // What a trail without an end would come to, of which the bounded one has 70 %.
    std::size_t bound = std::size_t(0.7 * event * double(entry) * double(run.ticks()));
    std::vector<Connection> connections;
    Buffer trail;
    unsigned long sum = 0;
    char text[1024];
    std::memset(text, 'x', sizeof text);
    while (run.tick()) {
        for (long n = run.poisson(arrivals); n > 0; n--) {
            connections.push_back({Buffer(), run.now() + run.lifetime(stay)});
        }
        for (Connection &connection : connections) {
            append_line(connection.buffer, text, std::size_t(run.between(20, 400)));
            if (run.chance(0.3)) { // the line is complete
                sum += connection.buffer.length;
                connection.buffer.length = 0;
            }
        }
        auto gone = std::partition(connections.begin(), connections.end(),
                                   [&](const Connection &c) { return c.ends > run.now(); });
        for (auto it = gone; it != connections.end(); ++it) {
            bool broke_off = run.chance(breaks);
            if (!broke_off || !run.leak('b')) {
                drop(it->buffer);
            }
        }
        connections.erase(gone, connections.end());
        for (long n = run.poisson(event); n > 0; n--) {
            if (run.lookalike && !run.leak('a') && trail.length + entry > bound) {
                trail.length = 0; // from the beginning again, as a ring
            }
            append_trail(trail, text, entry);
        }
        if (!run.lookalike && !run.leak('a') && run.now() % flush == 0) {
            sum += trail.length;
            drop(trail);
        }
    }
    run.end(sum + trail.length);
}
