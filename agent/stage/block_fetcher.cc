// The whole of BlockFetcher. Read fetch() and turn() first, then exchange(), which talks to one source.
#include "agent/stage/block_fetcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/strings.h"

namespace muster::agent::inline stage {
namespace {

using base::Result;
using base::Status;

constexpr std::size_t kChecksATurn = 16;  // blocks that are looked for on this host before sockets have their turn
constexpr std::chrono::milliseconds kLongestWait{200};

std::chrono::milliseconds since(base::MonotonicTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(base::monotonic_now() - time);
}

// Connects within `limit`. CANCELLED if `stop_fd` becomes readable.
Result<base::UniqueFd> connect_to(const BlockSource& source, std::chrono::milliseconds limit, int stop_fd) {
  const base::SockAddr address = base::make_sockaddr(source.address, source.port);
  base::UniqueFd fd(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return base::errno_error(errno, "open a socket");
  if (::connect(fd.get(), address.get(), address.size) == 0) return fd;
  if (errno != EINPROGRESS) return base::errno_error(errno, "connect");
  pollfd polled[] = {{fd.get(), POLLOUT, 0}, {stop_fd, POLLIN, 0}};
  int ready = 0;
  do {
    ready = ::poll(polled, 2, static_cast<int>(limit.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) return base::deadline_exceeded("connect: no answer in time");
  if (polled[1].revents != 0) return base::cancelled("connect: cancelled");
  int problem = 0;
  socklen_t size = sizeof problem;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &problem, &size) != 0) problem = errno;
  if (problem != 0) return base::errno_error(problem, "connect");
  return fd;
}

}  // namespace

Result<std::unique_ptr<BlockFetcher>> BlockFetcher::make(std::shared_ptr<BlockTable> table, base::TlsKey key,
                                                         std::function<void(BlockReport)> report,
                                                         BlockFetchLimits limits) {
  MUSTER_ASSIGN_OR_RETURN(base::TlsContext context, base::TlsContext::client(std::move(key)));
  auto wake = std::make_shared<const base::UniqueFd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  base::UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake->valid() || !stop.valid()) return base::errno_error(errno, "get a descriptor to fetch staged files");
  return std::unique_ptr<BlockFetcher>(new BlockFetcher(std::move(table), std::move(context), std::move(wake),
                                                        std::move(stop), std::move(report), limits));
}

BlockFetcher::BlockFetcher(std::shared_ptr<BlockTable> table, base::TlsContext context, WakeFd wake,
                           base::UniqueFd stop, std::function<void(BlockReport)> report, BlockFetchLimits limits)
    : table_(std::move(table)),
      context_(std::move(context)),
      wake_(std::move(wake)),
      stop_(std::move(stop)),
      on_report_(std::move(report)),
      limits_(limits) {}

void BlockFetcher::interrupt() const {
  (void)::eventfd_write(stop_.get(), 1);
}

void BlockFetcher::fetch(const std::vector<BlockSource>& sources, const std::atomic<bool>& stop) {
  block_sigpipe();
  sources_ = sources;
  reported_ = base::monotonic_now();
  while (!stop) {
    next_report_.problem = turn(stop);
    if (stop) return;
    next_report_.is_complete = table_->is_complete();
    const bool is_over = next_report_.is_complete || !next_report_.problem.ok();
    send_report(is_over);
    if (is_over) break;
    wait();
  }
  if (stream_) stream_->close_notify();
}

Status BlockFetcher::turn(const std::atomic<bool>& stop) {
  has_more_ = false;
  forget_arrived();
  MUSTER_RETURN_IF_ERROR(check_blocks());
  while (!is_at_launcher() && !stop) {
    if (asked_.empty() && to_ask_.empty()) return base::ok_status();
    const Status status = exchange();
    if (status.ok()) return status;
    if (status.code() != base::Code::kUnavailable) return status;  // no other source helps
    leave_source(status);
  }
  ask_launcher();
  return base::ok_status();
}

bool BlockFetcher::has_room() const {
  return asked_.size() + to_ask_.size() < kMostAsked && asked_bytes_ < kMostAskedBytes;
}

// Looks for listed blocks on this host. Those that are missing are asked for.
Status BlockFetcher::check_blocks() {
  for (std::size_t i = 0; has_room(); ++i) {
    if (i == kChecksATurn) {
      has_more_ = true;
      return base::ok_status();
    }
    const auto id = table_->next_to_check();
    if (!id) return base::ok_status();
    MUSTER_ASSIGN_OR_RETURN(const bool is_here, table_->check(*id));
    if (is_here) continue;
    to_ask_.push_back(*id);
    asked_bytes_ += table_->bytes_of(*id);
  }
  return base::ok_status();
}

void BlockFetcher::forget_arrived() {
  std::erase_if(asked_, [this](BlockId id) {
    if (table_->is_missing(id)) return false;
    asked_bytes_ -= table_->bytes_of(id);
    return true;
  });
}

void BlockFetcher::ask_launcher() {
  for (const BlockId id : to_ask_) {
    next_report_.wants.push_back(id);
    asked_.insert(id);
  }
  to_ask_.clear();
}

void BlockFetcher::leave_source(const Status& why) {
  const BlockSource& source = sources_[source_++];
  const std::string next = is_at_launcher() ? "the launcher" : sources_[source_].name;
  next_report_.notes.push_back(fmt::format("blocks come from {} instead of {}: {}", next, source.name, why.message()));
  stream_.reset();
  incoming_.clear();
  outgoing_.clear();
  wants_write_ = false;
  // Ask the next source in the same order.
  to_ask_.insert(to_ask_.begin(), asked_.begin(), asked_.end());
  asked_.clear();
}

Status BlockFetcher::connect() {
  const BlockSource& source = sources_[source_];
  auto fd = connect_to(source, limits_.connect, stop_.get());
  if (!fd.ok()) return base::unavailable("{}", fd.status().message());
  base::tune_output_socket(fd->get());
  stream_.emplace(context_, *std::move(fd));
  const Status status = stream_->handshake_blocking(base::monotonic_now() + limits_.connect, stop_.get());
  return status.ok() ? status : base::unavailable("{}", status.message());
}

Status BlockFetcher::exchange() {
  if (!stream_) {
    MUSTER_RETURN_IF_ERROR(connect());
    heard_ = base::monotonic_now();
  }
  if (asked_.empty()) heard_ = base::monotonic_now();
  for (const BlockId id : to_ask_) {
    append_block_request(id, outgoing_);
    asked_.insert(id);
  }
  to_ask_.clear();
  MUSTER_RETURN_IF_ERROR(send_requests());
  MUSTER_RETURN_IF_ERROR(read_replies());
  return check_time();
}

Status BlockFetcher::send_requests() {
  wants_write_ = false;
  while (!outgoing_.empty()) {
    const auto moved = stream_->write(outgoing_.data(), outgoing_.size());
    if (!moved.ok()) return base::unavailable("{}", moved.status().message());
    if (moved->bytes == 0) {
      wants_write_ = true;
      return base::ok_status();
    }
    outgoing_.erase(0, moved->bytes);
  }
  return base::ok_status();
}

// Reads until the socket is empty, or until a block has arrived, so that its place can be asked for anew.
Status BlockFetcher::read_replies() {
  std::array<char, 16384> bytes{};
  while (true) {
    const auto moved = stream_->read(bytes.data(), bytes.size());
    if (!moved.ok()) return base::unavailable("{}", moved.status().message());
    if (moved->progress == base::TlsProgress::kEof) return base::unavailable("it closed the connection");
    if (moved->bytes == 0) return base::ok_status();
    heard_ = base::monotonic_now();
    if (incoming_.empty()) block_began_ = heard_;
    incoming_.append(bytes.data(), moved->bytes);
    const std::size_t before = asked_.size();
    MUSTER_RETURN_IF_ERROR(take_reply());
    if (asked_.size() < before) {
      has_more_ = true;
      return base::ok_status();
    }
  }
}

// Handles the replies that are whole.
Status BlockFetcher::take_reply() {
  while (incoming_.size() >= kBlockReplySize) {
    const auto reply = parse_block_reply(std::string_view(incoming_).substr(0, kBlockReplySize));
    if (!reply.ok()) return base::unavailable("{}", reply.status().message());
    if (reply->kind == BlockReplyKind::kRefused) return base::unavailable("it does not have the files");
    if (reply->kind == BlockReplyKind::kBlock) {
      if (!asked_.contains(reply->id) || reply->size != table_->bytes_of(reply->id)) {
        return base::unavailable("it sent a block that was not asked for");
      }
      if (incoming_.size() < kBlockReplySize + reply->size) return base::ok_status();
      const Status status = table_->put(reply->id, std::string_view(incoming_).substr(kBlockReplySize, reply->size));
      if (status.code() == base::Code::kDataLoss) return base::unavailable("{}", status.message());
      if (!status.ok()) return base::internal_error("{}", status.message());  // of this host's disk
      next_report_.peer_bytes += reply->size;
      asked_.erase(reply->id);
      asked_bytes_ -= reply->size;
    }
    incoming_.erase(0, kBlockReplySize + reply->size);
    block_began_ = base::monotonic_now();
  }
  return base::ok_status();
}

Status BlockFetcher::check_time() const {
  if (asked_.empty()) return base::ok_status();
  if (since(heard_) > limits_.silence) return base::unavailable("it sent nothing for {} ms", since(heard_).count());
  if (!incoming_.empty() && since(block_began_) > limits_.block) {
    return base::unavailable("it is too slow: a block takes more than {} ms", limits_.block.count());
  }
  return base::ok_status();
}

void BlockFetcher::wait() const {
  pollfd polled[] = {{wake_->get(), POLLIN, 0},
                     {stop_.get(), POLLIN, 0},
                     {stream_ ? stream_->fd() : -1, static_cast<short>(wants_write_ ? POLLIN | POLLOUT : POLLIN), 0}};
  (void)::poll(polled, std::size(polled), has_more_ ? 0 : static_cast<int>(kLongestWait.count()));
  eventfd_t count = 0;
  (void)::eventfd_read(wake_->get(), &count);
}

// Sends the report if it asks for blocks, says something new, or is due.
void BlockFetcher::send_report(bool is_due) {
  next_report_.done_blocks = table_->done_blocks();
  next_report_.changed_files = table_->changed_files();
  const bool has_progress = next_report_.done_blocks != reported_blocks_ && since(reported_) >= limits_.report;
  if (!is_due && next_report_.wants.empty() && next_report_.notes.empty() && !has_progress) return;
  reported_ = base::monotonic_now();
  reported_blocks_ = next_report_.done_blocks;
  on_report_(next_report_);
  next_report_.wants.clear();
  next_report_.notes.clear();
}

}  // namespace muster::agent::stage
