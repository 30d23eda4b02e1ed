#include "agent/process/lease_page.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <new>

namespace muster::agent::inline process {
namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
using Cell = std::atomic<std::int64_t>;
static_assert(Cell::is_always_lock_free, "the page is shared between processes");

base::Result<void*> map_page(int fd) {
  void* page = ::mmap(nullptr, sizeof(Cell), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return base::errno_error(errno, "map a shared page");
  return page;
}

}  // namespace

base::Result<LeasePage> LeasePage::create() {
  base::UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return base::errno_error(errno, "create an eventfd");
  base::UniqueFd fd(::memfd_create("muster-lease", MFD_CLOEXEC));
  if (!fd.valid() || ::ftruncate(fd.get(), sizeof(Cell)) != 0) return base::errno_error(errno, "make a shared page");
  MUSTER_ASSIGN_OR_RETURN(void* const page, map_page(fd.get()));
  return LeasePage(new (page) Cell(kNone), std::move(fd), std::move(wake));
}

base::Result<LeasePage> LeasePage::attach(base::UniqueFd page, base::UniqueFd wake) {
  MUSTER_ASSIGN_OR_RETURN(void* const mapped, map_page(page.get()));
  return LeasePage(static_cast<Cell*>(mapped), std::move(page), std::move(wake));
}

LeasePage::~LeasePage() {
  if (until_ != nullptr) ::munmap(until_, sizeof(Cell));
}

LeasePage::LeasePage(LeasePage&& other) noexcept
    : until_(std::exchange(other.until_, nullptr)), page_(std::move(other.page_)), wake_(std::move(other.wake_)) {}

LeasePage& LeasePage::operator=(LeasePage&& other) noexcept {
  std::swap(until_, other.until_);
  std::swap(page_, other.page_);
  std::swap(wake_, other.wake_);
  return *this;
}

void LeasePage::set(std::optional<base::MonotonicTime> until) {
  const std::int64_t value = until ? std::chrono::nanoseconds(until->time_since_epoch()).count() : kNone;
  if (value < until_->exchange(value)) {
    const std::uint64_t one = 1;
    // An error means that the eventfd is full, so the warden is awake already.
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
  }
}

std::optional<base::MonotonicTime> LeasePage::get() const {
  const std::int64_t value = until_->load();
  if (value == kNone) return std::nullopt;
  return base::MonotonicTime(std::chrono::nanoseconds(value));
}

void LeasePage::drain_wake() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof count);
}

}  // namespace muster::agent::process
