// Makes small pictures of large ones: tiles are decoded into buffers, encoded into an output that grows, and kept in a cache; metadata
// is parsed into lists.
// Leaks: a - the colour profile of a picture that turns out to be broken; b - the line buffers of a resizer whose target is as large as the
// source, which is then not needed, and forgotten.
// Lookalike: the cache of pictures is full only late, and the table of cameras grows until then.
#include "beats.hpp"

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <vector>

namespace
{

struct Tag {
    std::string name, text;
};

struct Profile {
    std::size_t size;
    unsigned char *data;
    char *description;
};

struct Resizer {
    std::size_t width;
    float *lines[3];
};

struct Picture {
    long number;
    std::vector<Tag> tags;
    std::unique_ptr<unsigned char[]> small;
};

class Service
{
  public:
    explicit Service(Run &run)
        : run_(run), pictures_(run.real(0.8, 2.5)), broken_(run.real(0.06, 0.15)), same_(run.real(0.05, 0.15)),
          cameras_(run.between(20, 60)), capacity_(std::size_t(run.between(50, 150)))
    {
        if (run.lookalike) {
            capacity_ = std::size_t(pictures_ * double(run.ticks()) * run.real(0.5, 0.75));
        }
    }

    void tick()
    {
        for (long n = run_.poisson(pictures_); n > 0; n--) {
            picture();
        }
        while (!answers_.empty() && answers_.begin()->first <= run_.now()) {
            sum += answers_.begin()->second.size();
            answers_.erase(answers_.begin());
        }
        if (run_.now() % 60 == 0) {
            report();
        }
    }

    unsigned long sum = 0;

  private:
    void picture()
    {
        auto picture = std::make_unique<Picture>();
        picture->number = ++number_;
        parse(*picture);
        Profile *profile = read_profile();
        bool broken = run_.chance(broken_);
        if (broken) {
            if (!run_.leak('a')) {
                drop(profile);
            }
            errors_.push_back("picture " + std::to_string(number_) + " ends in the middle of a tile");
            if (errors_.size() > 40) {
                errors_.pop_front();
            }
            return;
        }
        std::size_t width = std::size_t(run_.between(40, 300));
        Resizer *resizer = prepare(width);
        if (run_.chance(same_)) {
            picture->small = std::make_unique<unsigned char[]>(width * 4);
            if (!run_.leak('b')) {
                drop(resizer);
            }
        } else {
            picture->small = encode(*resizer);
            drop(resizer);
        }
        drop(profile);
        keep(std::move(picture));
    }

    __attribute__((noinline)) void parse(Picture &picture)
    {
        long known =
            run_.lookalike ? std::max(1L, long(double(cameras_) * std::min(1.0, run_.progress() / 0.7))) : cameras_;
        long camera = run_.between(0, known - 1);
        std::string model = "Camera of model " + std::to_string(camera) + " with a long name";
        auto found = models_.find(model);
        if (found == models_.end()) {
            found = models_.emplace(model, std::vector<int>(std::size_t(20 + camera % 7), 1)).first;
        }
        found->second[0]++;
        for (long n = run_.between(3, 12); n > 0; n--) {
            picture.tags.push_back({"Exif.Photo.Tag" + std::to_string(n) + ".InLongForm",
                                    "value " + std::string(std::size_t(n * 3), 'e')});
        }
    }

    __attribute__((noinline)) Profile *read_profile()
    {
        auto *profile = static_cast<Profile *>(std::malloc(sizeof(Profile))); // site profile
        profile->size = std::size_t(run_.between(400, 3200));
        profile->data = static_cast<unsigned char *>(std::calloc(1, profile->size)); // site profile_data
        profile->description = strdup("a colour space as the maker describes it");   // site profile_text
        return profile;
    }

    static void drop(Profile *profile)
    {
        std::free(profile->data);
        std::free(profile->description);
        std::free(profile);
    }

    __attribute__((noinline)) Resizer *prepare(std::size_t width)
    {
        auto *resizer = new Resizer; // site resizer
        resizer->width = width;
        for (float *&line : resizer->lines) {
            line = static_cast<float *>(std::calloc(width, sizeof(float))); // site resizer_line
        }
        return resizer;
    }

    static void drop(Resizer *resizer)
    {
        for (float *line : resizer->lines) {
            std::free(line);
        }
        delete resizer;
    }

    __attribute__((noinline)) std::unique_ptr<unsigned char[]> encode(const Resizer &resizer)
    {
        unsigned char *out = nullptr;
        std::size_t size = 0;
        for (long n = run_.between(2, 9); n > 0; n--) { // grows tile by tile
            size += resizer.width;
            out = static_cast<unsigned char *>(std::realloc(out, size));
            std::memset(out + size - resizer.width, int(n), resizer.width);
        }
        auto result = std::make_unique<unsigned char[]>(size);
        std::memcpy(result.get(), out, size);
        std::free(out);
        answers_.emplace(run_.now() + run_.lifetime(8), std::string(reinterpret_cast<char *>(result.get()), size / 2));
        return result;
    }

    __attribute__((noinline)) void keep(std::unique_ptr<Picture> picture)
    {
        cache_.push_front(std::move(picture));
        if (cache_.size() > capacity_) {
            cache_.pop_back();
        }
    }

    __attribute__((noinline)) void report()
    {
        std::string text;
        for (const auto &picture : cache_) {
            text += std::to_string(picture->number) + ": " + std::to_string(picture->tags.size()) + " tags\n";
        }
        sum += text.size();
    }

    Run &run_;
    double pictures_, broken_, same_;
    long cameras_, number_ = 0;
    std::size_t capacity_;
    std::list<std::unique_ptr<Picture>> cache_;
    std::map<std::string, std::vector<int>> models_;
    std::multimap<long, std::string> answers_;
    std::deque<std::string> errors_;
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    Service service(run);
    while (run.tick()) {
        service.tick();
    }
    run.end(service.sum);
}
