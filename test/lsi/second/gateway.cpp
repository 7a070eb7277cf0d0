// A gateway in the manner of C: connections to backends in a pool, a table of sessions that expire, a wheel of timers.
// Leaks: a - expired sessions that came by an upgrade, which the sweep of the table leaves where they are; b - the timer of a
// connection that is armed anew, when the old one is taken off the wheel, but not freed.
// Lookalike: the backend gets slower until late, so that the pool and the sessions in use grow, and then stay.
#include "beats.hpp"

namespace
{

struct Header {
    char *name, *value;
    Header *next;
};

struct Session {
    bool upgraded;
    long expires;
    char *cookie;
    Header *headers;
    Session *next;
};

struct Timer {
    long due;
    void (*call)(void *);
    char *label;
    unsigned char context[96];
    Timer *next, **back;
};

struct Connection {
    char *host;
    unsigned char *in, *out;
    std::size_t in_size, out_size;
    Timer *keep_alive;
    long busy_until;
    Connection *next;
};

char *copy(const char *text)
{
    std::size_t size = std::strlen(text) + 1;
    return static_cast<char *>(std::memcpy(std::malloc(size), text, size));
}

template <class T> T *zeroed()
{
    return static_cast<T *>(std::calloc(1, sizeof(T)));
}

constexpr std::size_t slots = 256;

class Gateway
{
  public:
    explicit Gateway(Run &run)
        : run_(run), requests_(run.real(2, 6)), logins_(run.real(0.5, 2)), upgrades_(run.real(0.2, 0.4)),
          stay_(run.real(10, 30)), answer_(run.real(2, 6)), rearm_(run.real(0.1, 0.4)),
          most_(long(4 * requests_ * (answer_ + 1)))
    {
        for (int i = 0; i < 200; i++) {
            char text[64];
            std::snprintf(text, sizeof text, "/api/v2/collection/%d/items", i);
            routes_[i] = copy(text);
        }
    }

    void tick()
    {
        double wave = 1 + 0.5 * std::sin(double(run_.now()) / 29);
        for (long n = run_.poisson(logins_ * wave); n > 0; n--) {
            login();
        }
        for (long n = run_.poisson(requests_ * wave); n > 0; n--) {
            forward();
        }
        sweep();
        fire();
    }

    unsigned long sum = 0;

  private:
    // What lasts longer and longer in the lookalike way, until three fifths of the run.
    double slower() const
    {
        return run_.lookalike ? 1 + 3 * std::min(1.0, run_.progress() / 0.6) : 1;
    }

    __attribute__((noinline)) void login()
    {
        bool upgraded = run_.chance(upgrades_);
        Session *session = upgraded ? upgrade() : zeroed<Session>();
        session->upgraded = upgraded;
        session->expires = run_.now() + run_.lifetime(stay_ * slower());
        Session **slot = &sessions_[std::size_t(run_.between(0, slots - 1))];
        if (!upgraded) {
            char text[96];
            std::snprintf(text, sizeof text, "sid=%016lx; Path=/; HttpOnly", run_.between(1, 1L << 60));
            session->cookie = copy(text);
            session->headers = headers(nullptr, 2);
        }
        session->next = *slot;
        *slot = session;
    }

    __attribute__((noinline)) Session *upgrade()
    {
        Session *session = zeroed<Session>(); // site upgraded
        char text[256] = {};
        std::memset(text, 'k', std::size_t(run_.between(40, 250)));
        session->cookie = copy(text);                            // site upgraded_key
        session->headers = headers(nullptr, run_.between(2, 5)); // site upgraded_headers
        return session;
    }

    __attribute__((noinline)) Header *headers(Header *list, long count)
    {
        static const char *const names[] = {"Sec-WebSocket-Protocol", "X-Forwarded-For", "User-Agent", "Origin",
                                            "Accept"};
        while (count-- > 0) {
            Header *header = zeroed<Header>();
            char text[96];
            std::snprintf(text, sizeof text, "value %ld of a header that a client has sent", run_.between(0, 1L << 40));
            header->name = copy(names[count % 5]);
            header->value = copy(text);
            header->next = list;
            list = header;
        }
        return list;
    }

    static void drop(Header *list)
    {
        while (list) {
            Header *next = list->next;
            std::free(list->name);
            std::free(list->value);
            std::free(list);
            list = next;
        }
    }

    void sweep()
    {
        for (std::size_t i = 0; i < slots; i++) {
            for (Session **at = &sessions_[i]; *at;) {
                Session *session = *at;
                if (session->expires > run_.now() || (session->upgraded && run_.leak('a'))) {
                    at = &session->next;
                    continue;
                }
                *at = session->next;
                std::free(session->cookie);
                drop(session->headers);
                std::free(session);
            }
        }
    }

    void forward()
    {
        Connection *connection = idle();
        if (!connection) {
            return; // the client tries again
        }
        Header *list = headers(nullptr, run_.between(2, 6));
        std::size_t size = std::min(std::size_t(run_.pareto(300, 1.1)), std::size_t(5000));
        auto *body = static_cast<unsigned char *>(std::malloc(size));
        std::memset(body, 'b', size);
        if (size > connection->out_size) { // grows to the greatest body, and is not made smaller
            connection->out = static_cast<unsigned char *>(std::realloc(connection->out, size));
            connection->out_size = size;
        }
        std::memcpy(connection->out, body, size);
        sum += size + std::strlen(routes_[run_.skewed(200)]);
        std::free(body);
        drop(list);
        connection->busy_until = run_.now() + run_.lifetime(answer_ * slower());
        if (!connection->keep_alive || run_.chance(rearm_)) {
            arm(connection);
        }
    }

    Connection *idle()
    {
        for (Connection *c = pool_; c; c = c->next) {
            if (c->busy_until <= run_.now()) {
                return c;
            }
        }
        return connections_ < most_ ? connect() : nullptr;
    }

    __attribute__((noinline)) Connection *connect()
    {
        Connection *c = zeroed<Connection>();
        char text[64];
        std::snprintf(text, sizeof text, "backend-%ld.service.internal:8443", run_.between(1, 40));
        c->host = copy(text);
        c->in_size = 8192;
        c->in = static_cast<unsigned char *>(std::malloc(c->in_size));
        std::memset(c->in, 0, c->in_size);
        connections_++;
        c->next = pool_;
        return pool_ = c;
    }

    __attribute__((noinline)) void arm(Connection *connection)
    {
        Timer *timer = zeroed<Timer>(); // site timer
        char text[80];
        std::snprintf(text, sizeof text, "keep-alive of %s", connection->host);
        timer->label = copy(text); // site timer_label
        timer->due = run_.now() + run_.between(20, 60);
        if (Timer *old = connection->keep_alive) {
            unlink(old);
            if (!run_.leak('b')) {
                std::free(old->label);
                std::free(old);
            }
        }
        connection->keep_alive = timer;
        timer->back = &wheel_[timer->due % 64];
        timer->next = *timer->back;
        if (timer->next) {
            timer->next->back = &timer->next;
        }
        *timer->back = timer;
    }

    static void unlink(Timer *timer)
    {
        *timer->back = timer->next;
        if (timer->next) {
            timer->next->back = timer->back;
        }
    }

    void fire()
    {
        for (Connection *c = pool_; c; c = c->next) {
            if (c->keep_alive && c->keep_alive->due <= run_.now()) {
                unlink(c->keep_alive);
                std::free(c->keep_alive->label);
                std::free(c->keep_alive);
                c->keep_alive = nullptr;
            }
        }
    }

    Run &run_;
    double requests_, logins_, upgrades_, stay_, answer_, rearm_;
    long most_, connections_ = 0; // most: as there are when it is slowest; without a limit the pool has no end
    char *routes_[200];
    Session *sessions_[slots] = {};
    Timer *wheel_[64] = {};
    Connection *pool_ = nullptr;
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    Gateway gateway(run);
    while (run.tick()) {
        gateway.tick();
    }
    run.end(gateway.sum);
}
