// All of stack_dump.h. Read ask_stack_dump() at the end first, then the functions that it calls.
#include "agent/evidence/stack_dump.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <optional>

#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace muster::agent::inline evidence {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kLongestHeader = 64;           // bytes
constexpr std::size_t kLongestStackDump = 64 << 10;  // bytes
constexpr std::size_t kLongestDumpName = 1024;       // bytes of a path or a function
// The handler writes each frame by itself, and nothing marks the end of a stack. It needs well under a millisecond.
constexpr milliseconds kSettled{20};

struct DumpFile {
  base::UniqueFd fd;
  StackDumpHeader header;
  off_t begin = 0;  // where stacks begin
};

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Parses `  File "/x/train.py", line 12 in main`.
std::optional<PythonFrame> parse_frame(std::string_view line) {
  constexpr std::string_view kBegin = "  File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = " in ";
  if (!line.starts_with(kBegin)) return std::nullopt;
  line.remove_prefix(kBegin.size());
  const std::size_t file_end = line.rfind(kLine);  // a path may have quotes
  if (file_end == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(file_end + kLine.size());
  const std::size_t number_end = rest.find(kIn);
  if (number_end == std::string_view::npos) return std::nullopt;
  const auto number = whole_number(rest.substr(0, number_end));
  constexpr std::uint64_t kMostLines = 1 << 30;
  PythonFrame frame;
  frame.function = rest.substr(number_end + kIn.size()).substr(0, kLongestDumpName);
  frame.file = line.substr(0, std::min(file_end, kLongestDumpName));
  frame.line = number && *number <= kMostLines ? static_cast<int>(*number) : 0;  // faulthandler may write "???"
  return frame;
}

base::Result<std::string> read_from(int fd, off_t offset, std::size_t most) {
  std::string bytes(most, '\0');
  const ssize_t size = ::pread(fd, bytes.data(), bytes.size(), offset);
  if (size < 0) return base::errno_error(errno, "read the stacks that the program writes");
  bytes.resize(static_cast<std::size_t>(size));
  return bytes;
}

base::Result<DumpFile> open_dump(const std::string& path) {
  DumpFile file;
  file.fd.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.fd.valid()) return base::not_found("the program has not called muster.enable_stack_dumps()");
  struct stat status {};
  if (::fstat(file.fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::getuid()) {
    return base::permission_denied("{} is no file of this user", path);
  }
  if (::flock(file.fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return base::unavailable("another process asks the program for its stack now");
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string begin, read_from(file.fd.get(), 0, kLongestHeader));
  const std::size_t end = begin.find('\n');
  if (end == std::string::npos) return base::invalid_argument("{} has no header", path);
  MUSTER_ASSIGN_OR_RETURN(file.header, parse_stack_dump_header(std::string_view(begin).substr(0, end)));
  file.begin = static_cast<off_t>(end + 1);
  return file;
}

// True if the process handles the signal, so that it does not end the process.
bool handles(pid_t pid, int signal) {
  constexpr std::string_view kCaught = "SigCgt:";
  const auto status = base::read_file(fmt::format("/proc/{}/status", pid));
  if (!status.ok()) return false;
  for (const std::string_view line : base::split(*status, '\n')) {
    if (!line.starts_with(kCaught)) continue;
    const std::string_view digits = base::trim(line.substr(kCaught.size()));
    std::uint64_t mask = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), mask, 16);
    return failure == std::errc() && end == digits.data() + digits.size() && (mask >> (signal - 1) & 1) != 0;
  }
  return false;
}

// Waits until the file changes. False at the deadline.
bool wait_for_change(int notify, steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
  pollfd poll{.fd = notify, .events = POLLIN, .revents = 0};
  if (left <= 0 || ::poll(&poll, 1, static_cast<int>(left)) <= 0) return false;
  alignas(inotify_event) std::array<char, 4096> events;
  return ::read(notify, events.data(), events.size()) > 0;
}

base::Result<std::string> signal_and_read(const DumpFile& file, const std::string& path, const ProcessInfo& process,
                                          steady_clock::time_point deadline) {
  const base::UniqueFd notify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!notify.valid()) return base::errno_error(errno, "watch the stacks that the program writes");
  // Drop older stacks first. The program appends, so its next stack begins where the file ends.
  if (::ftruncate(file.fd.get(), file.begin) != 0 || ::inotify_add_watch(notify.get(), path.c_str(), IN_MODIFY) < 0) {
    return base::errno_error(errno, "watch the stacks that the program writes");
  }
  if (!signal_process(process, file.header.signal)) return base::not_found("the process cannot be signalled");
  if (!wait_for_change(notify.get(), deadline)) return base::deadline_exceeded("the program writes no stack");
  while (wait_for_change(notify.get(), std::min(deadline, steady_clock::now() + kSettled))) {
  }
  return read_from(file.fd.get(), file.begin, kLongestStackDump);
}

}  // namespace

base::Result<StackDumpHeader> parse_stack_dump_header(std::string_view line) {
  constexpr std::string_view kBegin = "muster stack 1 ";
  if (!line.starts_with(kBegin)) return base::invalid_argument("the file of stacks has no header");
  const auto words = base::split(line.substr(kBegin.size()), ' ');
  const auto signal = words.size() == 2 ? whole_number(words[0]) : std::nullopt;
  const auto start_time = words.size() == 2 ? whole_number(words[1]) : std::nullopt;
  if (!signal || !start_time) return base::invalid_argument("the header of the file of stacks is malformed");
  if (*signal < static_cast<std::uint64_t>(SIGRTMIN) || *signal > static_cast<std::uint64_t>(SIGRTMAX)) {
    return base::invalid_argument("the file of stacks names signal {}, which is no real-time signal", *signal);
  }
  return StackDumpHeader{.signal = static_cast<int>(*signal), .start_time = *start_time};
}

std::vector<PythonFrame> parse_stack_dump(std::string_view text) {
  std::vector<PythonFrame> frames;
  while (!text.empty() && frames.size() < kMaxPythonFrames) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    auto frame = parse_frame(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!frame && !frames.empty()) break;  // another stack follows
    if (frame) frames.push_back(std::move(*frame));
  }
  return frames;
}

base::Result<std::vector<PythonFrame>> ask_stack_dump(const std::string& session_dir, const ProcessInfo& process,
                                                      steady_clock::time_point deadline) {
  const std::string path = fmt::format("{}/stack-{}", session_dir, process.pid);
  MUSTER_ASSIGN_OR_RETURN(const DumpFile file, open_dump(path));
  // The signal would end another process that has got the same pid since.
  if (file.header.start_time != process.start_time || !handles(process.pid, file.header.signal)) {
    return base::not_found("the process no longer handles the signal of muster.enable_stack_dumps()");
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string text, signal_and_read(file, path, process, deadline));
  std::vector<PythonFrame> frames = parse_stack_dump(text);
  if (frames.empty()) return base::invalid_argument("the program has written no stack that can be read");
  return frames;
}

}  // namespace muster::agent::evidence
