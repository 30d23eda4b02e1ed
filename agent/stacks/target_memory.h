// Reads the memory of another process. The process is not stopped, so what it reads may change at any time.
//
// Owner: the caller. Thread: single-threaded.
// Errors: a read yields all bytes or none. Nothing that is read may be trusted.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline stacks {

class TargetMemory {
 public:
  virtual ~TargetMemory() = default;
  // False if a byte of the range cannot be read.
  virtual bool read(std::uint64_t address, std::span<std::byte> to) = 0;
  // Returns a number that stays the same as long as the thread does not run. nullopt if it runs now, or if that cannot
  // be known.
  virtual std::optional<std::uint64_t> sleep_mark(pid_t tid) = 0;
};

// The memory of a live process, read through /proc/PID/mem.
class ProcessMemory final : public TargetMemory {
 public:
  // Opens /proc/PID/mem. PERMISSION_DENIED: the kernel does not let us read it; the message says why, and what to do
  // next.
  static base::Result<base::UniqueFd> open_fd(pid_t pid);
  // `memory` is open on the /proc/PID/mem of the process.
  ProcessMemory(pid_t pid, base::UniqueFd memory) : pid_(pid), memory_(std::move(memory)) {}

  bool read(std::uint64_t address, std::span<std::byte> to) override;
  std::optional<std::uint64_t> sleep_mark(pid_t tid) override;

 private:
  pid_t pid_;
  base::UniqueFd memory_;
};

// Parses /proc/PID/task/TID/status for sleep_mark().
std::optional<std::uint64_t> parse_sleep_mark(std::string_view status);

// Pages of another process as they were when they were first read. A page is read once, so this saves system calls.
class PageCache {
 public:
  explicit PageCache(TargetMemory& memory) : memory_(memory) {}

  // False if a byte of the range cannot be read, or if more than kMaxPages pages would be kept.
  bool read(std::uint64_t address, std::span<std::byte> to);

  template <typename T>
  std::optional<T> get(std::uint64_t address) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    if (!read(address, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
    return value;
  }
  std::optional<std::uint64_t> pointer(std::uint64_t address) { return get<std::uint64_t>(address); }

 private:
  static constexpr std::size_t kPageSize = 4096;
  static constexpr std::size_t kMaxPages = 8192;
  using Page = std::array<std::byte, kPageSize>;

  const Page* page(std::uint64_t number);

  TargetMemory& memory_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
};

}  // namespace muster::agent::stacks
