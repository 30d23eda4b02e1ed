#include "agent/io/ring_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace muster::agent::inline io {
namespace {

constexpr std::size_t kStep = std::size_t{16} << 20;  // the file grows by this much
constexpr std::size_t kPage = std::size_t{64} << 10;  // a multiple of every page size

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

class HeapMemory final : public RingMemory {
 public:
  explicit HeapMemory(std::size_t bytes) : bytes_(new char[bytes]) {
    data_ = bytes_.get();
    size_ = bytes;
  }
  bool grow(std::size_t wanted) override { return wanted <= size_; }
  void shrink() override {}

 private:
  const std::unique_ptr<char[]> bytes_;
};

// The first bytes are normal memory. The file is mapped behind them piece by piece.
class SpoolMemory final : public RingMemory {
 public:
  SpoolMemory(void* place, std::size_t bytes, std::size_t limit, std::string directory)
      : first_(bytes), limit_(limit), directory_(std::move(directory)) {
    data_ = static_cast<char*>(place);
    size_ = bytes;
  }
  ~SpoolMemory() override { ::munmap(data_, limit_); }
  SpoolMemory(const SpoolMemory&) = delete;
  SpoolMemory& operator=(const SpoolMemory&) = delete;

  bool grow(std::size_t wanted) override {
    if (wanted <= size_) return true;
    if (wanted > limit_ || !open_file()) return false;
    const std::size_t size = std::min(limit_, size_ + round_up(wanted - size_, kStep));
    const std::size_t from = size_ - first_;
    const std::size_t more = size - size_;
    if (::posix_fallocate(file_.get(), static_cast<off_t>(from), static_cast<off_t>(more)) != 0) {
      give_back(from);
      return false;
    }
    void* const mapped = ::mmap(data_ + size_, more, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.get(),
                                static_cast<off_t>(from));
    if (mapped == MAP_FAILED) {
      give_back(from);
      return false;
    }
    size_ = size;
    return true;
  }

  void shrink() override {
    if (size_ <= first_) return;
    size_ = first_;  // from here on nothing touches the bytes of the file
    give_back(0);
  }

 private:
  bool open_file() {
    if (file_.valid()) return true;
    const std::string path = directory_ + "/spool";
    base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid() || ::unlink(path.c_str()) != 0) return false;
    file_ = std::move(file);
    return true;
  }

  // Releases the file's blocks from `from` on. If that fails, the file only stays larger than necessary.
  void give_back(std::size_t from) {
    [[maybe_unused]] const int n = ::ftruncate(file_.get(), static_cast<off_t>(from));
  }

  const std::size_t first_;
  const std::size_t limit_;
  const std::string directory_;
  base::UniqueFd file_;
};

}  // namespace

std::unique_ptr<RingMemory> make_heap_memory(std::size_t bytes) {
  return std::make_unique<HeapMemory>(bytes);
}

base::Result<std::unique_ptr<RingMemory>> make_spool_memory(std::size_t bytes, std::size_t spool_bytes,
                                                            const std::string& directory) {
  const std::size_t first = round_up(bytes, kPage);
  const std::size_t limit = first + round_up(spool_bytes, kPage);
  void* const place = ::mmap(nullptr, limit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const bool is_ours = place != MAP_FAILED;
  if (!is_ours || ::mprotect(place, first, PROT_READ | PROT_WRITE) != 0) {
    if (is_ours) ::munmap(place, limit);
    return base::resource_exhausted(
        "cannot reserve {} MiB of addresses for buffered output: lower MUSTER_SPOOL_MIB on this host", limit >> 20);
  }
  return std::unique_ptr<RingMemory>(std::make_unique<SpoolMemory>(place, first, limit, directory));
}

}  // namespace muster::agent::io
