// The whole of RankOutputs. Read add() and read_ready() first, then settle(), settle_rank() and settle_pipe().
// exited() and frame_end() handle the end of a rank.

#include "agent/io/rank_outputs.h"

#include "base/clock.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace muster::agent::inline io {
namespace {

using base::MonotonicTime;
using proto::OutputStream;

constexpr std::size_t kSendSoon = 64 * 1024;  // send after this many bytes, while they are still in the cache
// After fewer bytes than this, let more arrive before the next read.
constexpr std::size_t kSmallRound = 16 * 1024;
constexpr auto kGather = std::chrono::milliseconds(2);
constexpr std::size_t kTailPasses = 16;
constexpr auto kBetweenReads = std::chrono::milliseconds(10);  // for a pipe that epoll refused

// With few ranks, stdout pipes are large. Many large pipes would use up the user's limit of pipe pages, and new pipes
// would then shrink to 8 KiB.
// The pipe of stderr keeps its 64 KiB, as much as is read for the tail of a dead rank.
void size_pipe(int fd, std::size_t ranks) {
  const int bytes = ranks <= 8 ? 1 << 20 : ranks <= 32 ? 256 << 10 : 0;
  // Ignore a refusal (limit reached, not a pipe): the size stays as it is, which is good enough.
  if (bytes != 0) (void)fcntl(fd, F_SETPIPE_SZ, bytes);
}

}  // namespace

struct RankOutputs::Rank {
  Rank(int number, base::UniqueFd out_fd, base::UniqueFd err_fd, RankPipe::Cut cut)
      : rank(number),
        out(number, OutputStream::kStdout, std::move(out_fd), cut),
        err(number, OutputStream::kStderr, std::move(err_fd)) {}

  const int rank;
  RankPipe out;
  RankPipe err;
  std::optional<MonotonicTime> exited;
  bool is_draining = false;  // from now on only what is already in the pipes is read
  // Pipes that epoll refused (max_user_watches, no memory). settle() reads them.
  std::vector<const RankPipe*> without_epoll{};
};

RankOutputs::RankOutputs(const OutputSenderConfig* config, const OutputSenderEvents* events, FrameRing* ring)
    : config_(config), events_(events), ring_(ring), pipes_(epoll_create1(EPOLL_CLOEXEC)) {}

RankOutputs::~RankOutputs() = default;

void RankOutputs::add(int number, base::UniqueFd stdout_fd, base::UniqueFd stderr_fd, RankPipe::Cut cut) {
  auto owned = std::make_unique<Rank>(number, std::move(stdout_fd), std::move(stderr_fd), cut);
  Rank& rank = *owned;
  MUSTER_CHECK(ranks_.count(rank.rank) == 0);
  for (RankPipe* pipe : {&rank.out, &rank.err}) {
    if (!pipe->is_open()) continue;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = pipe;
    MUSTER_CHECK(base::set_nonblocking(pipe->fd(), true).ok());
    if (epoll_ctl(pipes_.get(), EPOLL_CTL_ADD, pipe->fd(), &event) != 0) rank.without_epoll.push_back(pipe);
  }
  if (rank.out.is_open()) size_pipe(rank.out.fd(), ranks_.size() + 1);
  ranks_.emplace(number, std::move(owned));
}

void RankOutputs::exited(int number) {
  const auto found = ranks_.find(number);
  if (found == ranks_.end() || found->second->exited) return;
  Rank& rank = *found->second;
  rank.exited = base::monotonic_now();
  // The dead process's last output is in the pipe by now. Read it now, so that the report need not wait.
  RankPipe::Step step = RankPipe::Step::kMoved;
  for (std::size_t i = 0; i < kTailPasses && step == RankPipe::Step::kMoved; ++i) {
    step = rank.err.read_step(ring_, &carry_, *rank.exited);
  }
  if (step == RankPipe::Step::kRingFull) rank.err.read_tail(&carry_);
  if (events_->on_stderr_tail) events_->on_stderr_tail(rank.rank, rank.err.tail());
}

std::map<int, LastOutput> RankOutputs::last_outputs() const {
  std::map<int, LastOutput> outputs;
  for (const auto& [number, rank] : ranks_) {
    if (rank->out.bytes() == 0 && rank->err.bytes() == 0) continue;
    const bool is_out = rank->out.last_data() > rank->err.last_data();
    const RankPipe& last = is_out ? rank->out : rank->err;
    const RankPipe& other = is_out ? rank->err : rank->out;
    std::string line = last.last_line();
    if (line.empty()) line = other.last_line();
    outputs.emplace(number, LastOutput{.line = std::move(line), .at = last.last_data()});
  }
  return outputs;
}

void RankOutputs::read_ready(const std::function<void()>& send) {
  std::array<epoll_event, 64> ready;
  const int count = epoll_wait(pipes_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  const MonotonicTime time = base::monotonic_now();
  const std::uint64_t before = ring_->bytes_committed() + carry_.used;
  for (int i = 0; i < count && !is_ring_full_; ++i) {
    auto* pipe = static_cast<RankPipe*>(ready[static_cast<std::size_t>(i)].data.ptr);
    is_ring_full_ = pipe->read_step(ring_, &carry_, time) == RankPipe::Step::kRingFull;
    if (ring_->unsent().size() >= kSendSoon) send();
  }
  if (ring_->bytes_committed() + carry_.used - before < kSmallRound) gathers_until_ = time + kGather;
}

MonotonicTime RankOutputs::settle() {
  due_ = MonotonicTime::max();
  while (!silent_.empty() && !is_silent() && frame_end(silent_.back())) silent_.pop_back();
  for (auto it = ranks_.begin(); it != ranks_.end();) {
    it = settle_rank(it->second.get()) ? ranks_.erase(it) : std::next(it);
  }
  return due_;
}

// Sends an unfinished line that has waited too long, and reads what a dead rank left.
void RankOutputs::settle_pipe(const Rank& rank, RankPipe* pipe) {
  const MonotonicTime time = base::monotonic_now();
  const bool is_without_epoll = std::ranges::find(rank.without_epoll, pipe) != rank.without_epoll.end();
  if ((rank.is_draining || is_without_epoll) && pipe->is_open() && !is_ring_full_) {
    const RankPipe::Step step = pipe->read_step(ring_, &carry_, time);
    is_ring_full_ = step == RankPipe::Step::kRingFull;
    if (pipe->is_open()) wake_at(step == RankPipe::Step::kEmpty ? time + kBetweenReads : time);
  }
  if (!pipe->has_carry() || is_ring_full_) return;
  const MonotonicTime due = pipe->is_open() ? pipe->last_data() + config_->partial_line_after : time;
  if (time < due) return wake_at(due);
  if (pipe->is_open() && pipe->has_pending()) return wake_at(time + kGather);  // it will be read soon
  is_ring_full_ = !pipe->flush_carry(ring_, &carry_);
}

// True if all output of the rank is framed, so that the rank can be forgotten.
bool RankOutputs::settle_rank(Rank* rank) {
  if (rank->exited && !rank->is_draining) {
    const MonotonicTime due = *rank->exited + config_->drain_after_exit;
    if (base::monotonic_now() >= due) {
      rank->is_draining = true;
      rank->out.stop_after_pending();
      rank->err.stop_after_pending();
    } else {
      wake_at(due);
    }
  }
  settle_pipe(*rank, &rank->out);
  settle_pipe(*rank, &rank->err);
  if (!rank->exited || rank->out.is_open() || rank->err.is_open() || rank->out.has_carry() || rank->err.has_carry()) {
    return false;
  }
  RankOutputEnd end{rank->rank, rank->out.bytes(), rank->err.bytes(), rank->err.tail()};
  if (is_silent()) {
    silent_.push_back(end);
  } else if (!frame_end(end)) {
    return false;
  }
  if (events_->on_ended) events_->on_ended(std::move(end));
  return true;
}

// False if the ring is full.
bool RankOutputs::frame_end(const RankOutputEnd& end) {
  const auto payload = proto::encode_end_counts({end.stdout_bytes, end.stderr_bytes});
  char* const room = ring_->reserve(payload.size());
  if (room == nullptr) {
    is_ring_full_ = true;
    return false;
  }
  std::copy(payload.begin(), payload.end(), room);
  ring_->commit({.kind = proto::OutputKind::kEnd,
                 .rank = static_cast<std::uint32_t>(end.rank),
                 .length = static_cast<std::uint32_t>(payload.size())});
  return true;
}

}  // namespace muster::agent::io
