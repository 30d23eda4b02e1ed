// The whole of RankWatchdog. Read it in this order: open(), readable(), take_line(), arm(), expire(); then
// stack_arrived() and end_reading(), after which a rank gets its signal.
#include "agent/job/rank_watchdog.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include <fmt/format.h>

#include "base/signal_name.h"
#include "base/strings.h"
#include "model/rank_env.h"

namespace muster::agent::inline job {
namespace {

// Look at the clock at least this often, because it may be set while a timer runs.
constexpr std::chrono::milliseconds kLongestWait{1000};
constexpr int kShownFrames = 8;

double seconds_of(base::WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

std::string frames_of(const v1::ThreadStack& thread) {
  std::string text;
  for (int i = 0; i < std::min(kShownFrames, thread.user_size()); ++i) {
    const v1::StackFrame& frame = thread.user(i);
    text += i == 0 ? "" : " < ";
    text += frame.function().empty() ? fmt::format("{:#x}", frame.address()) : frame.function();
  }
  return text;
}

}  // namespace

RankWatchdog::RankWatchdog(base::Loop& loop, const base::Clock& clock, Events events)
    : loop_(loop), clock_(clock), events_(std::move(events)) {}

base::Status RankWatchdog::open(const std::string& session_dir) {
  const std::string path = model::torch_timer_file(session_dir);
  ::unlink(path.c_str());  // of an earlier start of the job in this directory
  if (::mkfifo(path.c_str(), 0600) != 0) return base::errno_error(errno, fmt::format("make the FIFO {}", path));
  // With a writer of our own, the FIFO is never at its end, also while no rank has it open.
  fifo_.reset(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!fifo_.valid()) return base::errno_error(errno, fmt::format("open the FIFO {}", path));
  watch_ = loop_.on_readable(fifo_.get(), [this] { readable(); });
  return base::ok_status();
}

// Reads once. A rank that writes without an end must not keep the loop from other work.
void RankWatchdog::readable() {
  std::array<char, 64 << 10> bytes{};
  const ssize_t size = ::read(fifo_.get(), bytes.data(), bytes.size());
  if (size <= 0) return;
  const std::uint64_t dropped = lines_.dropped();
  lines_.append({bytes.data(), static_cast<std::size_t>(size)}, [this](std::string_view line) { take_line(line); });
  if (lines_.dropped() != dropped) take_line(std::string(kMaxWatchdogLine + 1, ' '));
  arm();
}

void RankWatchdog::take_line(std::string_view line) {
  const auto request = parse_watchdog_request(line);
  if (!request.ok()) {
    if (!std::exchange(has_reported_line_, true)) events_.on_notice(request.status().message());
    return;
  }
  if (timers_.apply(*request)) return;
  if (std::exchange(has_reported_room_, true)) return;
  events_.on_notice(
      fmt::format("the ranks here have set {} watchdog timers, and no more are kept; release timers of "
                  "scopes that have ended",
                  WatchdogTimers::kMaxTimers));
}

void RankWatchdog::arm() {
  const auto next = timers_.next();
  if (!next) return timer_.cancel();
  const std::chrono::duration<double> left(std::max(0.0, *next - seconds_of(clock_.wall())));
  const auto wait = left < kLongestWait ? std::chrono::ceil<std::chrono::milliseconds>(left) : kLongestWait;
  timer_ = loop_.after(wait, [this] {
    expire();
    arm();
  });
}

void RankWatchdog::expire() {
  std::set<int> hung;
  const std::uint64_t id = kStackBit | (readings_ + 1);
  for (const ExpiredTimer& expired : timers_.take_expired(seconds_of(clock_.wall()))) {
    const std::string scope = base::printable(expired.scope);
    const auto rank = ranks_.find(expired.pid);
    if (rank == ranks_.end()) {
      if (std::exchange(has_reported_pid_, true)) continue;
      events_.on_notice(
          fmt::format("a watchdog timer of process {} has expired (scope '{}'), but no rank here has this "
                      "pid, so nothing is ended",
                      expired.pid, scope));
      continue;
    }
    const auto known = hung_.find(rank->second);
    if (known != hung_.end() && known->second.reading != 0) continue;  // it gets its signal soon
    events_.on_notice(fmt::format("rank {} hangs: its watchdog timer of scope '{}' has expired; it gets {}",
                                  rank->second, scope, base::signal_name(expired.signal)));
    hung_[rank->second] = {.signal = expired.signal, .reading = id};
    hung.insert(rank->second);
  }
  if (hung.empty()) return;
  ++readings_;
  events_.read_stacks(id, hung);
}

void RankWatchdog::stack_arrived(const v1::StackAnswer& answer) {
  for (const v1::ThreadStack& thread : answer.process().threads()) {
    const std::string frames = frames_of(thread);
    if (frames.empty()) continue;
    events_.on_notice(base::printable(fmt::format("rank {}, pid {} ({}), {}: {}", answer.process().rank(),
                                                  answer.process().pid(), answer.process().command(),
                                                  thread.tids_size() == 1 ? "one thread" : "some threads", frames)));
  }
  if (answer.done()) end_reading(answer.id());
}

void RankWatchdog::end_reading(std::uint64_t id) {
  for (auto& [rank, hung] : hung_) {
    if (hung.reading != id) continue;
    hung.reading = 0;
    events_.signal(rank, hung.signal);
  }
}

void RankWatchdog::ended(int rank) {
  hung_.erase(rank);
  for (auto entry = ranks_.begin(); entry != ranks_.end();) {
    if (entry->second != rank) {
      ++entry;
      continue;
    }
    timers_.forget(entry->first);
    entry = ranks_.erase(entry);
  }
}

void RankWatchdog::judge(v1::RankExited& exited) const {
  const auto hung = hung_.find(exited.rank());
  if (hung == hung_.end() || hung->second.reading != 0) return;
  constexpr int kSignalBits = 0x7f;  // WTERMSIG
  if ((exited.wait_status() & kSignalBits) == hung->second.signal) exited.set_stopped_by_us(false);
}

}  // namespace muster::agent::job
