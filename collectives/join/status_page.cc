// The status page: who makes it, and the stores that change it.
// Read open_page() first, then Details, which is the sequence lock, then the functions of the header in order.
#include "collectives/join/status_page.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include "base/env.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace muster::collectives::inline join {

std::atomic<base::RankPage*> status_page_pointer{nullptr};

namespace {

constexpr std::int64_t kFast = 50'000'000;  // ns between two samples; if they come faster, the stride doubles
constexpr std::uint64_t kLargestStride = std::uint64_t{1} << 40;
constexpr std::uint64_t kNumbers = (std::uint64_t{1} << base::kSampleKindShift) - 1;
constexpr int kMostRank = 1 << 24;
constexpr int kMostGeneration = 1 << 22;
constexpr int kWorldsOfGeneration = 256;
constexpr int kTries = 10'000;  // for changes of the world, which must not be left out

std::int64_t read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

template <typename T>
std::atomic_ref<T> shared(T& value) {
  return std::atomic_ref<T>(value);
}

template <typename T>
void count(T& value) {
  shared(value).fetch_add(1, std::memory_order_relaxed);
}

// The process's own data about its page.
struct Owner {
  std::mutex mutex;  // held while the page is made, and while the world changes
  bool has_failed = false;
  int lock_fd = -1;
  int generation = -1;
  int worlds = 0;  // of the generation
  std::atomic<bool> has_engine{false};
  std::mutex beat_mutex;  // heartbeats are rare
  std::uint64_t beats = 0;
  ArrivalSampler beat_sampler{base::SampleKind::kHeartbeat};
};

// Never freed, since threads may use it until the process ends.
std::atomic<Owner*>& owner_pointer() {
  static std::atomic<Owner*> kept{new Owner};
  return kept;
}

Owner& owner() {
  return *owner_pointer().load(std::memory_order_acquire);
}

// The page says where the parent is. A child that calls libmuster gets a page of its own. It also gets another Owner,
// because threads of the parent may hold the locks of this one.
void forget_page_in_child() {
  status_page_pointer.store(nullptr, std::memory_order_release);
  if (const int fd = owner().lock_fd; fd >= 0) close(fd);
  owner_pointer().store(new Owner, std::memory_order_release);
}

bool watch_forks() {
  static const bool kIsWatching = pthread_atfork(nullptr, nullptr, forget_page_in_child) == 0;
  return kIsWatching;
}

int number_of(const char* name, long most) {
  const auto number = base::parse_decimal(base::env_var(name).value_or(""), most);
  return number ? static_cast<int>(*number) : -1;
}

base::UniqueFd open_session_directory() {
  const std::string path = base::env_var("MUSTER_SESSION_DIR").value_or("");
  if (path.empty()) return {};
  base::UniqueFd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  if (!directory.valid() || fstat(directory.get(), &about) != 0) return {};
  const bool is_private = about.st_uid == geteuid() && (about.st_mode & 077) == 0;
  return is_private ? std::move(directory) : base::UniqueFd();
}

// The file gets its final name only when it is whole and locked, so the agent never takes it for one of a dead process.
// posix_fallocate() makes sure that later stores find room on the disk.
base::UniqueFd make_file(int directory, base::RankPage** page) {
  const std::string name = fmt::format("{}{}.{}", base::kRankPagePrefix, getpid(), status_now());
  const std::string early = "." + name;
  base::UniqueFd file(openat(directory, early.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return {};
  void* memory = MAP_FAILED;
  if (flock(file.get(), LOCK_EX | LOCK_NB) == 0 && posix_fallocate(file.get(), 0, sizeof(base::RankPage)) == 0) {
    memory = mmap(nullptr, sizeof(base::RankPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  }
  if (memory == MAP_FAILED || renameat(directory, early.c_str(), directory, name.c_str()) != 0) {
    if (memory != MAP_FAILED) munmap(memory, sizeof(base::RankPage));
    unlinkat(directory, early.c_str(), 0);
    return {};
  }
  *page = static_cast<base::RankPage*>(memory);
  return file;
}

// Call it with owner().mutex. Does nothing if there is a page, or if an attempt has failed.
void open_page() {
  Owner& own = owner();
  if (status_page() != nullptr || own.has_failed) return;
  own.has_failed = true;
  const int rank = number_of("MUSTER_RANK", kMostRank);
  const base::UniqueFd directory = rank < 0 ? base::UniqueFd() : open_session_directory();
  if (!directory.valid()) return;
  if (!watch_forks()) return;
  base::RankPage* page = nullptr;
  base::UniqueFd file = make_file(directory.get(), &page);
  if (!file.valid()) return;
  page->job_rank = rank;
  page->world_rank = -1;
  page->world = std::max(number_of("MUSTER_GENERATION", kMostGeneration), 0) * kWorldsOfGeneration;
  shared(page->magic).store(base::kRankPageMagic, std::memory_order_release);
  own.lock_fd = file.release();  // open as long as the process lives
  own.has_failed = false;
  status_page_pointer.store(page, std::memory_order_release);
}

// The right to write the guarded fields. Not granted while another thread has it.
class Details {
 public:
  explicit Details(base::RankPage& page) : sequence_(page.sequence) {
    seen_ = sequence_.load(std::memory_order_relaxed);
    is_ours_ = seen_ % 2 == 0 && sequence_.compare_exchange_strong(seen_, seen_ + 1, std::memory_order_acquire,
                                                                   std::memory_order_relaxed);
    if (is_ours_) std::atomic_thread_fence(std::memory_order_release);
  }
  ~Details() {
    if (is_ours_) sequence_.store(seen_ + 2, std::memory_order_release);
  }
  Details(const Details&) = delete;
  Details& operator=(const Details&) = delete;
  bool is_ours() const { return is_ours_; }

 private:
  std::atomic_ref<std::uint64_t> sequence_;
  std::uint64_t seen_ = 0;
  bool is_ours_ = false;
};

template <std::size_t kSize>
void copy(std::string_view text, char (&room)[kSize]) {
  const std::size_t bytes = text.copy(room, kSize - 1);
  room[bytes] = '\0';
}

void set_world(base::RankPage& page, int rank, int size, int world) {
  for (int i = 0; i < kTries; ++i) {
    const Details details(page);
    if (!details.is_ours()) {
      sched_yield();
      continue;
    }
    const int job_rank = number_of("MUSTER_RANK", kMostRank);  // an elastic job changes it
    if (job_rank >= 0) page.job_rank = job_rank;
    page.world_rank = rank;
    page.size = size;
    page.world = world;
    page.operation[0] = page.name[0] = '\0';
    for (std::uint64_t* const counter : {&page.begun, &page.ended, &page.world_begun, &page.world_ended}) {
      shared(*counter).store(0, std::memory_order_relaxed);
    }
    shared(page.ended_ns).store(status_now(), std::memory_order_relaxed);
    return;
  }
}

}  // namespace

std::int64_t status_now() {
  return read_clock(CLOCK_MONOTONIC);
}

std::int64_t status_coarse_now() {
  return read_clock(CLOCK_MONOTONIC_COARSE);
}

void ArrivalSampler::keep(base::RankPage& page, std::uint64_t number, std::int64_t at_ns) {
  if ((number & (stride_ - 1)) != 0) {
    stride_ /= 2;
    if ((number & (stride_ - 1)) != 0) return;
  }
  const std::int64_t now = at_ns != 0 ? at_ns : status_now();
  if (now - last_ns_ < kFast && stride_ < kLargestStride) {
    stride_ *= 2;
  } else if (now - last_ns_ > kSlow && stride_ > 1) {
    stride_ /= 2;
  }
  last_ns_ = now;
  const std::uint64_t at = shared(page.samples_written).fetch_add(1, std::memory_order_relaxed);
  base::RankPageSample& sample = page.samples[at % base::kRankPageSamples];
  shared(sample.number).store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  shared(sample.ns).store(now, std::memory_order_relaxed);
  shared(sample.number)
      .store((static_cast<std::uint64_t>(kind_) << base::kSampleKindShift) | (number & kNumbers),
             std::memory_order_release);
}

void status_enter_world(int rank, int size) {
  Owner& own = owner();
  const std::lock_guard lock(own.mutex);
  open_page();
  base::RankPage* const page = status_page();
  if (page == nullptr) return;
  const int generation = std::max(number_of("MUSTER_GENERATION", kMostGeneration), 0);
  own.worlds = generation == own.generation ? (own.worlds + 1) % kWorldsOfGeneration : 0;
  own.generation = generation;
  set_world(*page, rank, size, generation * kWorldsOfGeneration + own.worlds);
}

void status_leave_world() {
  const std::lock_guard lock(owner().mutex);
  if (base::RankPage* const page = status_page()) set_world(*page, -1, 0, page->world);
}

void status_heartbeat(std::int64_t step) {
  Owner& own = owner();
  if (status_page() == nullptr) {
    const std::lock_guard lock(own.mutex);
    open_page();
  }
  base::RankPage* const page = status_page();
  if (page == nullptr) return;
  const std::lock_guard lock(own.beat_mutex);
  const std::uint64_t number = step >= 0 ? static_cast<std::uint64_t>(step) + 1 : own.beats + 1;
  ++own.beats;
  own.beat_sampler.arrive(*page, number, status_coarse_now());
  shared(page->beats).store(own.beats, std::memory_order_relaxed);
}

bool status_claim_engine() {
  return !owner().has_engine.exchange(true);
}

void status_release_engine() {
  owner().has_engine.store(false);
}

void status_show(base::RankPage& page, std::string_view operation, std::string_view name, std::int64_t began_ns) {
  const Details details(page);
  if (!details.is_ours()) return;
  page.began_ns = began_ns;
  copy(operation, page.operation);
  copy(name, page.name);
}

void status_begin(base::RankPage& page, std::string_view operation, std::string_view name, std::int64_t now_ns) {
  count(page.begun);
  status_show(page, operation, name, now_ns);
}

void status_end(base::RankPage& page) {
  shared(page.ended_ns).store(status_coarse_now(), std::memory_order_relaxed);
  count(page.ended);
}

}  // namespace muster::collectives::join
