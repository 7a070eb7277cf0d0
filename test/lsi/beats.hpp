// The clock and the dice of the C++ programs here. Words of each: BEATS BEAT_MS SEED LEAKS BASE, where LEAKS is the
// letters of the leaks that are switched on, or "-", and BASE is "plain" or "lookalike": what is free of leaks then looks
// as if it were not.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <unistd.h>
#ifdef LSI_ACCOUNT
#include "account.hpp"
#endif

class Run
{
  public:
    static constexpr int ticks_per_beat = 4;
    bool lookalike = false;

    Run(int argc, char **argv)
    {
        if (argc != 6 || std::atol(argv[1]) < 1 || std::atol(argv[2]) < 1) {
            std::fprintf(stderr, "usage: %s BEATS BEAT_MS SEED LEAKS plain|lookalike\n", argv[0]);
            std::exit(2);
        }
        ticks_ = std::atol(argv[1]) * ticks_per_beat;
        length_ = std::chrono::microseconds(std::atol(argv[2]) * 1000 / ticks_per_beat);
        random_.seed(std::strtoull(argv[3], nullptr, 10));
        leaks_ = argv[4];
        lookalike = std::strcmp(argv[5], "lookalike") == 0;
        next_ = std::chrono::steady_clock::now();
    }

    // Sleeps until the next quarter of a beat; false at the end. Deadlines are absolute: what the work takes does not add up.
    bool tick()
    {
#ifdef LSI_ACCOUNT
        account::tick(tick_, ticks_);
        const long last = ticks_ * account::longer / 2; // what a program does in its time still follows from ticks()
#else
        const long last = ticks_;
#endif
        if (tick_ == last) {
            return false;
        }
        tick_++;
        next_ += length_;
        std::this_thread::sleep_until(next_);
        delay_ = std::max(delay_, std::chrono::steady_clock::now() - next_);
        return true;
    }

    long now() const
    {
        return tick_;
    } // ticks since the start
    long ticks() const
    {
        return ticks_;
    } // of the whole run
    double progress() const
    {
        return double(tick_) / double(ticks_);
    }
    bool leak(char letter) const
    {
        return leaks_.find(letter) != std::string::npos;
    }

    double unit()
    {
        return std::uniform_real_distribution<double>(0, 1)(random_);
    }
    double real(double low, double high)
    {
        return low + (high - low) * unit();
    }
    long between(long low, long high)
    {
        return std::uniform_int_distribution<long>(low, high)(random_);
    }
    bool chance(double p)
    {
        return unit() < p;
    }
    long poisson(double mean)
    {
        return std::poisson_distribution<long>(mean)(random_);
    }
    long lifetime(double mean)
    {
        return 1 + long(-mean * std::log(1 - unit()));
    } // exponential, in ticks
    long skewed(long n)
    {
        return long(double(n) * std::pow(unit(), 3));
    } // 0 to n-1, the low ones often
    double pareto(double least, double a)
    {
        return least / std::pow(1 - unit(), 1 / a);
    } // a heavy tail

    // As a service that is stopped: without destructors. Says the greatest delay in seconds, too, by which a run is known that
    // did not get the processor when it should.
    [[noreturn]] void end(unsigned long sum)
    {
        std::printf("%lu %.3f\n", sum, std::chrono::duration<double>(delay_).count());
        std::fflush(stdout);
        _exit(0);
    }

  private:
    long ticks_, tick_ = 0;
    std::chrono::microseconds length_;
    std::chrono::steady_clock::time_point next_;
    std::chrono::steady_clock::duration delay_{};
    std::mt19937_64 random_;
    std::string leaks_;
};
