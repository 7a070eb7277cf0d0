/* fill.cpp - operators that copy, convert and fill. */
#include <cmath>
#include <random>

#include "tensor.h"

using namespace vnpu;

OPERATOR(aclnnInplaceCopy, (aclTensor * self, const aclTensor *from), (self, from))
{
    write(self, read(from, shape(self)));
}

OPERATOR(aclnnCast, (const aclTensor *self, aclDataType type, aclTensor *out), (self, type, out))
{
    (void)type;
    write(out, read(self));
}

OPERATOR(aclnnForeachCopy, (const aclTensorList *from, aclTensorList *to), (from, to))
{
    for (uint64_t i = 0; i < from->size; i++)
        write(to->values[i], read(from->values[i]));
}

static void fill(const aclTensor *tensor, double value)
{
    write(tensor, Values(count(tensor), value));
}

OPERATOR(aclnnInplaceFillScalar, (aclTensor * self, const aclScalar *value), (self, value))
{
    fill(self, number(value));
}

OPERATOR(aclnnInplaceFillTensor, (aclTensor * self, const aclTensor *value), (self, value))
{
    fill(self, read(value)[0]);
}

OPERATOR(aclnnInplaceZero, (aclTensor * self), (self))
{
    fill(self, 0);
}

OPERATOR(aclnnInplaceOne, (aclTensor * self), (self))
{
    fill(self, 1);
}

OPERATOR(aclnnForeachZeroInplace, (aclTensorList * tensors), (tensors))
{
    for (uint64_t i = 0; i < tensors->size; i++)
        fill(tensors->values[i], 0);
}

OPERATOR(aclnnInplaceMaskedFillScalar, (aclTensor * self, const aclTensor *mask, const aclScalar *value),
         (self, mask, value))
{
    Values x = read(self), m = read(mask, shape(self));
    for (size_t i = 0; i < x.size(); i++)
        if (m[i] != 0)
            x[i] = number(value);
    write(self, x);
}

static void count_up(const aclScalar *start, const aclScalar *step, aclTensor *out)
{
    Values x(count(out));
    for (size_t i = 0; i < x.size(); i++)
        x[i] = number(start) + (double)i * number(step);
    write(out, x);
}

OPERATOR(aclnnArange, (const aclScalar *start, const aclScalar *end, const aclScalar *step, aclTensor *out),
         (start, end, step, out))
{
    (void)end;
    count_up(start, step, out);
}

OPERATOR(aclnnRange, (const aclScalar *start, const aclScalar *end, const aclScalar *step, aclTensor *out),
         (start, end, step, out))
{
    (void)end;
    count_up(start, step, out);
}

/* Numbers by chance: the same for the same seed and offset, though not those of a card. */
template <class Distribution>
static void draw(const aclTensor *self, int64_t seed, int64_t offset, Distribution distribution)
{
    std::seed_seq mix{seed, seed >> 32, offset};
    std::mt19937_64 engine(mix);
    Values x(count(self));
    for (double &v : x)
        v = (double)distribution(engine);
    write(self, x);
}

OPERATOR(aclnnInplaceNormal, (aclTensor * self, float mean, float deviation, int64_t seed, int64_t offset),
         (self, mean, deviation, seed, offset))
{
    draw(self, seed, offset, std::normal_distribution<>(mean, deviation));
}

OPERATOR(aclnnInplaceUniform, (aclTensor * self, double from, double to, uint64_t seed, uint64_t offset),
         (self, from, to, seed, offset))
{
    draw(self, (int64_t)seed, (int64_t)offset, std::uniform_real_distribution<>(from, to));
}

OPERATOR(aclnnInplaceRandom, (aclTensor * self, int64_t from, int64_t to, int64_t seed, int64_t offset),
         (self, from, to, seed, offset))
{
    draw(self, seed, offset, std::uniform_int_distribution<int64_t>(from, to - 1));
}
