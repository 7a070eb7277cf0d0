// harm.cpp - what programs do that profilers of the heap have broken: harm COMPLAINT. docs/host-leaks.md has the numbers.
// Each prints what does not depend on who watches.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

static std::vector<void *> kept;

__attribute__((noinline)) static void *keep(size_t size)
{
    void *p = malloc(size);
    kept.push_back(p);
    return p;
}

// 6: a library is found beside the one that asks, by its RUNPATH.
static int origin(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW);
    auto sibling = handle ? reinterpret_cast<int (*)()>(dlsym(handle, "sibling")) : nullptr;
    printf("sibling %d\n", sibling ? sibling() : -1);
    return sibling ? 0 : 1;
}

// 7: no frame pointers, garbage in their place; an alternate stack; a coroutine.
static char alternate[65536], coroutine[65536];
static ucontext_t outside, inside;

#ifdef __x86_64__
__attribute__((noinline, naked)) static void with_garbage(void (*)(size_t), size_t)
{
    __asm__(
        "push %rbp\n mov $0x123456789abcdef0, %rbp\n mov %rdi, %rax\n mov %rsi, %rdi\n call *%rax\n pop %rbp\n ret");
}
#else
static void with_garbage(void (*call)(size_t), size_t size)
{
    call(size);
}
#endif

static void on_signal(int)
{
    keep(100);
}
static void in_coroutine()
{
    for (int i = 0; i < 1000; i++) {
        keep(50);
        swapcontext(&inside, &outside);
    }
}

static int frames()
{
    stack_t stack = {};
    stack.ss_sp = alternate;
    stack.ss_size = sizeof alternate;
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    sigaltstack(&stack, nullptr);
    sigaction(SIGUSR1, &action, nullptr);
    getcontext(&inside);
    inside.uc_stack.ss_sp = coroutine;
    inside.uc_stack.ss_size = sizeof coroutine;
    makecontext(&inside, in_coroutine, 0);
    for (int i = 0; i < 1000; i++) {
        with_garbage([](size_t size) { keep(size); }, 64);
        raise(SIGUSR1);
        swapcontext(&outside, &inside);
    }
    printf("%zu blocks\n", kept.size());
    return 0;
}

// 8: the C library allocates while it looks after threads.
static int attributes()
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; i++)
        threads.emplace_back([] {
            for (int k = 0; k < 100; k++) {
                pthread_attr_t attributes;
                void *stack;
                size_t size;
                if (pthread_getattr_np(pthread_self(), &attributes) ||
                    pthread_attr_getstack(&attributes, &stack, &size))
                    abort();
                pthread_attr_destroy(&attributes);
                std::thread([] { free(malloc(10)); }).join();
            }
        });
    for (auto &t : threads)
        t.join();
    puts("1600 threads");
    return 0;
}

// 9: what goes back over stacks.
__attribute__((noinline)) static void deep(int n)
{
    std::string text(100, 'x');
    if (n == 0)
        throw std::runtime_error(text);
    deep(n - 1);
    __asm__ volatile("" : : "r"(text.data()));
}

static int unwinding()
{
    volatile int caught = 0;
    volatile int jumped = 0;
    for (int i = 0; i < 100000; i++)
        try {
            deep(i % 10);
        } catch (const std::runtime_error &e) {
            caught = caught + (strlen(e.what()) == 100);
        }
    jmp_buf back;
    if (setjmp(back) < 100000) {
        free(malloc(33));
        jumped = jumped + 1;
        longjmp(back, jumped);
    }
    printf("%d caught, %d jumps\n", static_cast<int>(caught), static_cast<int>(jumped));
    return frames();
}

// 12: many libraries that want room for the variables of threads at once.
static int thread_variables(const char *pattern)
{
    long sum = 0;
    for (int i = 0; i < 30; i++) {
        char path[512];
        snprintf(path, sizeof path, pattern, i);
        void *handle = dlopen(path, RTLD_NOW);
        if (!handle) {
            puts(dlerror());
            return 1;
        }
        sum += reinterpret_cast<long (*)()>(dlsym(handle, "variable"))();
    }
    printf("sum %ld\n", sum);
    return 0;
}

// 16: code that nobody knows.
static int generated()
{
#ifdef __x86_64__
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0xbf,
                                         0x20, 0x03, 0,    0,    0xff, 0xd0, 0x5d, 0xc3};
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    auto allocate = reinterpret_cast<void *(*)(void *(*)(size_t))>(page); // malloc(800), with a frame pointer
    for (int i = 0; i < 100; i++)
        kept.push_back(allocate(malloc));
#endif
    for (int i = 0; i < 100; i++)
        keep(700);
    printf("%zu blocks\n", kept.size());
    return 0;
}

// 21: many events.
static int events()
{
    for (int i = 0; i < 3000000; i++)
        free(malloc(static_cast<size_t>(i % 500)));
    puts("done");
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}

int main(int argc, char **argv)
{
    switch (argc > 1 ? atoi(argv[1]) : 0) {
    case 2:
        keep(1);
        puts("started");
        return 0;
    case 6:
        return origin(argv[2]);
    case 7:
        return frames();
    case 8:
        return attributes();
    case 9:
        return unwinding();
    case 12:
        return thread_variables(argv[2]);
    case 16:
        return generated();
    case 21:
        return events();
    }
    return 2;
}
