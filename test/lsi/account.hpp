// An account of its own for truth.py, of a program that was built with -DLSI_ACCOUNT: who holds how much, by stack, at equal
// intervals of the run. It is nothing that the tool under test has a part in: the stacks are those of backtrace(3).
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <execinfo.h>
#include <malloc.h>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

extern "C" {
void *__libc_malloc(std::size_t);
void *__libc_calloc(std::size_t, std::size_t);
void *__libc_realloc(void *, std::size_t);
void *__libc_memalign(std::size_t, std::size_t);
void __libc_free(void *);
}

namespace account
{

using Stack = std::vector<void *>; // return addresses, innermost first

struct Block {
    const Stack *stack;
    std::size_t size;
};

// Never destroyed: the program may free until its end.
struct Book {
    std::mutex mutex;
    std::map<Stack, char> stacks; // their addresses stay the same
    std::unordered_map<void *, Block> blocks;
};

inline Book *book()
{
    static Book *const the = new (__libc_malloc(sizeof(Book))) Book;
    return the;
}

inline thread_local bool busy = false; // what the account itself allocates is not in it

// Runs something that may allocate, unless the account does so already.
template <class F> void aside(F &&work)
{
    if (!busy) {
        busy = true;
        work();
        busy = false;
    }
}

inline void gone(void *p)
{
    aside([p] {
        std::lock_guard<std::mutex> lock(book()->mutex);
        book()->blocks.erase(p);
    });
}

[[gnu::noinline]] inline void *born(void *p, std::size_t size)
{
    aside([p, size] {
        void *frames[24];
        int n = backtrace(frames, 24);
        std::lock_guard<std::mutex> lock(book()->mutex);
        book()->blocks[p] = {&book()->stacks.emplace(Stack(frames, frames + n), 0).first->first, size};
    });
    return p;
}

constexpr long moments = 12; // of the run
constexpr long longer = 3;   // halves of the run that it goes on for

// At the end of a tick, from half time on: one line for each stack at a moment, "MOMENT BLOCKS BYTES ADDRESS...".
inline void tick(long now, long ticks)
{
    long moment = now * moments / ticks;
    if (2 * moment < moments || moment == (now - 1) * moments / ticks) {
        return;
    }
    aside([moment] {
        std::lock_guard<std::mutex> lock(book()->mutex);
        std::map<const Stack *, Block> sums;
        std::map<const Stack *, long> counts;
        for (const auto &block : book()->blocks) {
            counts[block.second.stack]++;
            sums[block.second.stack].size += block.second.size;
        }
        for (const auto &count : counts) {
            std::fprintf(stderr, "%ld %ld %zu", moment, count.second, sums[count.first].size);
            for (void *address : *count.first) {
                std::fprintf(stderr, " %lx", reinterpret_cast<std::uintptr_t>(address));
            }
            std::fputc('\n', stderr);
        }
    });
}

} // namespace account

extern "C" {
void *malloc(std::size_t size)
{
    return account::born(__libc_malloc(size), size);
}
void *calloc(std::size_t n, std::size_t size)
{
    return account::born(__libc_calloc(n, size), n * size);
}
void *realloc(void *old, std::size_t size)
{
    account::gone(old);
    return account::born(__libc_realloc(old, size), size);
}
void *memalign(std::size_t alignment, std::size_t size)
{
    return account::born(__libc_memalign(alignment, size), size);
}
void *aligned_alloc(std::size_t alignment, std::size_t size)
{
    return account::born(__libc_memalign(alignment, size), size);
}
void free(void *p)
{
    account::gone(p);
    __libc_free(p);
}
}
