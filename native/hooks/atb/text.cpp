/*
 * text.cpp - strings that functions of C++ return, of either ABI. It is C++ because C has no type that is returned at an address of the
 * caller's choice on every processor and never moved afterwards, which is what a class with a destructor is; and a std::string
 * of the newer ABI points into itself. Needs nothing of the C++ library.
 */
#include <stddef.h>
#include <string.h>

namespace
{

/* At least as large as a std::string of either ABI; the first word of both is the address of a terminated text. */
struct Text {
    const char *data;
    size_t rest[3];
    ~Text() {}
};

} // namespace

extern "C" void atb_get_text(void *get, void (*destroy)(void *), const void *object, char *out, size_t size)
{
    Text text = reinterpret_cast<Text (*)(const void *)>(get)(object);
    size_t length = strnlen(text.data, size - 1);
    memcpy(out, text.data, length);
    out[length] = 0;
    destroy(&text);
}
