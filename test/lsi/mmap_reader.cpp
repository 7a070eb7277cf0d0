// Reads a file by mapping pieces of it, with an index for each piece that is mapped, and decodes records from them.
// Leaks: a - when the set of mapped pieces changes, they are unmapped but their indexes stay; b - the space for decoding a
// record of which the sum is wrong.
// Lookalike: the indexes are kept on purpose, for each piece once, and the file has been read when most of the time is over.
#include "beats.hpp"

#include <fcntl.h>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <vector>

namespace
{

constexpr std::size_t piece_size = 65536;

struct Piece {
    const unsigned char *base;
    std::vector<std::uint32_t> offsets;
    std::string name;
};

class Reader
{
  public:
    Reader(Run &run, long pieces) : run_(run), pieces_(pieces), bad_(run.real(0.01, 0.06)), decodes_(run.real(2, 8))
    {
        std::string file = "pieces." + std::to_string(getpid());
        fd_ = open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd_ < 0 || ftruncate(fd_, off_t(pieces) * off_t(piece_size)) != 0) {
            std::perror(file.c_str());
            std::exit(1);
        }
        unlink(file.c_str());
        for (long i = 0; i < pieces; i++) {
            unsigned char head[256];
            for (unsigned char &byte : head) {
                byte = static_cast<unsigned char>(run.between(0, 255));
            }
            if (pwrite(fd_, head, sizeof head, off_t(i) * off_t(piece_size)) != ssize_t(sizeof head)) {
                std::exit(1);
            }
        }
    }

    // Maps some pieces in place of those before.
    void change(long count)
    {
        for (auto &entry : mapped_) {
            munmap(const_cast<unsigned char *>(entry.second->base), piece_size);
            if (!run_.lookalike && !run_.leak('a')) {
                delete entry.second;
            }
        }
        mapped_.clear();
        for (long i = 0; i < count; i++) {
            // What keeps its indexes reads from front to back, once; the other one here and there.
            long number = run_.lookalike ? next_++ % pieces_ : run_.skewed(pieces_);
            if (mapped_.count(number) == 0) {
                mapped_[number] = use(number);
            }
        }
    }

    void decode_some()
    {
        for (long n = run_.poisson(decodes_); n > 0 && !mapped_.empty(); n--) {
            auto it = mapped_.begin();
            std::advance(it, run_.between(0, long(mapped_.size()) - 1));
            sum += decode(*it->second);
        }
    }

    unsigned long sum = 0;

  private:
    Piece *use(long number)
    {
        void *base = mmap(nullptr, piece_size, PROT_READ, MAP_PRIVATE, fd_, off_t(number) * off_t(piece_size));
        if (base == MAP_FAILED) {
            std::perror("mmap");
            std::exit(1);
        }
        const unsigned char *bytes = static_cast<const unsigned char *>(base);
        if (run_.lookalike && !run_.leak('a')) {
            Piece *&kept = known_[number];
            if (kept == nullptr) {
                kept = index(bytes, number);
            }
            kept->base = bytes;
            return kept;
        }
        return index(bytes, number);
    }

    __attribute__((noinline)) Piece *index(const unsigned char *bytes, long number)
    {
        Piece *piece = new Piece; // site index
        piece->base = bytes;
        piece->name = "the piece of the file with the number " + std::to_string(number); // site index
        long count = 50 + bytes[0] + bytes[1];
        for (long i = 0; i < count; i++) {
            piece->offsets.push_back(std::uint32_t(i * 37 % long(piece_size - 300))); // site index
        }
        return piece;
    }

    __attribute__((noinline)) unsigned long decode(const Piece &piece)
    {
        std::uint32_t offset = piece.offsets[std::size_t(run_.between(0, long(piece.offsets.size()) - 1))];
        std::size_t size = std::size_t(run_.between(100, 6000));
        unsigned char *space = static_cast<unsigned char *>(std::malloc(size)); // site space
        unsigned long result = 0;
        for (std::size_t i = 0; i < size; i++) {
            space[i] = piece.base[(offset + i) % piece_size];
            result += space[i];
        }
        if (run_.chance(bad_) && run_.leak('b')) {
            return 0;
        }
        std::free(space);
        return result;
    }

    Run &run_;
    long pieces_, next_ = 0;
    double bad_, decodes_;
    int fd_;
    std::map<long, Piece *> mapped_, known_;
};

} // namespace

int main(int argc, char **argv)
{
    Run run(argc, argv);
    long term = run.between(12, 48), each = run.between(3, 9); // ticks between two changes, pieces mapped
    // The whole file is read once after 60 to 80 % of the run.
    long pieces =
        run.lookalike ? long(run.real(0.6, 0.8) * double(run.ticks()) / double(term) * double(each)) + 1 : 128;
    Reader reader(run, pieces);
    reader.change(each);
    while (run.tick()) {
        if (run.now() % term == 0) {
            reader.change(each);
        }
        reader.decode_some();
    }
    run.end(reader.sum);
}
