#include "agent/stacks/target_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline stacks {
namespace {

constexpr std::size_t kMaxProcFile = 64u << 10;

base::Status memory_refused(pid_t pid) {
  struct stat owner {};
  if (::stat(fmt::format("/proc/{}", pid).c_str(), &owner) == 0 && owner.st_uid != ::geteuid()) {
    return base::permission_denied("it belongs to user {}: run the job as that user, or as root", owner.st_uid);
  }
  const auto scope = base::read_file("/proc/sys/kernel/yama/ptrace_scope", kMaxProcFile);
  if (scope.ok() && base::trim(*scope) != "0") {
    return base::permission_denied(
        "kernel.yama.ptrace_scope is {} on this host: run `sysctl kernel.yama.ptrace_scope=0` there as root, or run "
        "the job as root",
        base::printable(base::trim(*scope)));
  }
  return base::permission_denied(
      "the kernel does not let its memory be read: it may be a setuid program, or a sandbox forbids it; run the job as "
      "root");
}

}  // namespace

base::Result<base::UniqueFd> ProcessMemory::open_fd(pid_t pid) {
  base::UniqueFd memory(::open(fmt::format("/proc/{}/mem", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (memory.valid()) return memory;
  if (errno == EACCES || errno == EPERM) return memory_refused(pid);
  return base::errno_error(errno, "open its memory");
}

bool ProcessMemory::read(std::uint64_t address, std::span<std::byte> to) {
  if (address > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) - to.size()) return false;
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t count =
        ::pread(memory_.get(), to.data() + done, to.size() - done, static_cast<off_t>(address + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

std::optional<std::uint64_t> ProcessMemory::sleep_mark(pid_t tid) {
  const auto status = base::read_file(fmt::format("/proc/{}/task/{}/status", pid_, tid), kMaxProcFile);
  return status.ok() ? parse_sleep_mark(*status) : std::nullopt;
}

std::optional<std::uint64_t> parse_sleep_mark(std::string_view status) {
  bool sleeps = false;
  int counts = 0;
  std::uint64_t switches = 0;
  for (const std::string_view line : base::split(status, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view value = base::trim(line.substr(colon + 1));
    if (line.starts_with("State:")) sleeps = !value.starts_with('R');
    if (!line.substr(0, colon).ends_with("voluntary_ctxt_switches")) continue;
    const auto count = base::parse_decimal(value, std::numeric_limits<long>::max());
    if (!count) return std::nullopt;
    switches += static_cast<std::uint64_t>(*count);
    ++counts;
  }
  if (!sleeps || counts != 2) return std::nullopt;
  return switches;
}

const PageCache::Page* PageCache::page(std::uint64_t number) {
  const auto known = pages_.find(number);
  if (known != pages_.end()) return known->second.get();
  if (pages_.size() >= kMaxPages) return nullptr;
  auto fresh = std::make_unique<Page>();
  if (!memory_.read(number * kPageSize, *fresh)) return nullptr;
  return pages_.emplace(number, std::move(fresh)).first->second.get();
}

bool PageCache::read(std::uint64_t address, std::span<std::byte> to) {
  if (address > std::numeric_limits<std::uint64_t>::max() - to.size()) return false;
  std::size_t done = 0;
  while (done < to.size()) {
    const std::uint64_t at = address + done;
    const Page* const from = page(at / kPageSize);
    if (from == nullptr) return false;
    const std::size_t offset = at % kPageSize;
    const std::size_t count = std::min(kPageSize - offset, to.size() - done);
    std::memcpy(to.data() + done, from->data() + offset, count);
    done += count;
  }
  return true;
}

}  // namespace muster::agent::stacks
