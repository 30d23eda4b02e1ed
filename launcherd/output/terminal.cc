// Terminal writes text in turns and keeps the status line below it; Terminals and NoticeWriter use it.
// Read Terminal's public functions first, then write_some and wait_writable, then NoticeWriter::run.
#include "launcherd/output/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

namespace muster::launcherd::inline output {
namespace {

constexpr std::string_view kEraseLine = "\r\033[K";
constexpr std::size_t kMaxNotices = 1000;
// Chunk sizes for a descriptor that could not be opened again as non-blocking. If poll(2) reports POLLOUT, this many
// bytes fit. Terminals accept less than pipes.
constexpr std::size_t kPipeChunk = 4096;
constexpr std::size_t kTtyChunk = 256;
constexpr int kCancelPollMs = 100;

bool is_same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

// Returns the longest prefix of at most `columns` columns. Each UTF-8 code point counts as one column.
std::string_view cut_to_columns(std::string_view text, std::size_t columns) {
  std::size_t used = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (used++ == columns) return text.substr(0, i);
  }
  return text;
}

}  // namespace

// The right to write to the terminal. Threads get it in the order of their arrival, so a flood of output cannot starve
// a notice.
class Terminal::Turn {
 public:
  explicit Turn(Terminal* terminal) : terminal_(terminal) {
    std::unique_lock lock(terminal_->mutex_);
    const std::uint64_t ticket = terminal_->next_ticket_++;
    terminal_->turn_changed_.wait(lock, [&] { return terminal_->serving_ == ticket; });
  }
  ~Turn() {
    const std::lock_guard lock(terminal_->mutex_);
    ++terminal_->serving_;
    terminal_->turn_changed_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Terminal* const terminal_;
};

Terminal::Terminal(int fd, std::string name)
    : fd_(fd), name_(std::move(name)), cancel_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), is_tty_(isatty(fd) == 1) {
  struct stat info {};
  const bool is_open = fstat(fd_, &info) == 0;
  is_socket_ = S_ISSOCK(info.st_mode);
  // Do not wait for a closed descriptor. Its first write returns the error.
  is_plain_file_ = !is_open || (!is_socket_ && !is_tty_ && !S_ISFIFO(info.st_mode));
  if (is_tty_ || S_ISFIFO(info.st_mode)) {
    const std::string path = fmt::format("/proc/self/fd/{}", fd_);
    own_fd_.reset(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  }
}

Terminal::~Terminal() = default;

void Terminal::cancel() {
  is_cancelled_ = true;
  if (cancel_fd_.valid()) eventfd_write(cancel_fd_.get(), 1);
}

// Reports only the first failure. From then on everything is dropped.
base::Status Terminal::report_once(base::Status status) {
  if (status.ok()) return status;
  const bool was_failed = is_failed_;
  is_failed_ = true;
  return was_failed ? base::ok_status() : status;
}

base::Status Terminal::wait_writable() {
  pollfd fds[2] = {{own_fd_.valid() ? own_fd_.get() : fd_, POLLOUT, 0}, {cancel_fd_.get(), POLLIN, 0}};
  // If cancel() had no descriptor, poll every kCancelPollMs to notice it.
  const int limit_ms = cancel_fd_.valid() ? -1 : kCancelPollMs;
  for (;;) {
    const int ready = poll(fds, 2, limit_ms);
    if (ready < 0 && errno != EINTR) return base::errno_error(errno, fmt::format("poll {}", name_));
    if (is_cancelled_) return base::cancelled("{}: writing was cancelled", name_);
    if (ready > 0) return base::ok_status();
  }
}

// Writes a part of *text and removes it from *text. Writes nothing if the write would block.
base::Status Terminal::write_some(std::string_view* text) {
  ssize_t put = 0;
  if (own_fd_.valid()) {
    put = write(own_fd_.get(), text->data(), text->size());
  } else if (is_socket_) {
    put = send(fd_, text->data(), text->size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } else {
    const std::size_t most = is_plain_file_ ? text->size() : is_tty_ ? kTtyChunk : kPipeChunk;
    put = write(fd_, text->data(), std::min(most, text->size()));
  }
  if (put >= 0) {
    text->remove_prefix(static_cast<std::size_t>(put));
    return base::ok_status();
  }
  if (errno == EAGAIN || errno == EINTR) return base::ok_status();
  if (errno == EPIPE || errno == ECONNRESET) {
    return base::cancelled("{}: its reader has closed it", name_);
  }
  return base::errno_error(errno, fmt::format("write {}", name_));
}

base::Status Terminal::write_all(std::string_view text) {
  const bool can_try_first = own_fd_.valid() || is_socket_ || is_plain_file_;
  bool must_wait = !can_try_first;
  while (!text.empty()) {
    if (must_wait) MUSTER_RETURN_IF_ERROR(wait_writable());
    const std::size_t before = text.size();
    MUSTER_RETURN_IF_ERROR(write_some(&text));
    must_wait = !can_try_first || text.size() == before;
  }
  return base::ok_status();
}

// Writes lines. In raw mode '\n' gets a '\r'.
base::Status Terminal::write_lines(std::string_view text) {
  if (!is_raw_) return write_all(text);
  std::string raw;
  for (const char byte : text) {
    if (byte == '\n' && !raw.ends_with('\r')) raw.push_back('\r');
    raw.push_back(byte);
  }
  return write_all(raw);
}

std::string Terminal::visible_status() const {
  winsize size{};
  const bool is_known = ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return std::string(cut_to_columns(status_, is_known ? size.ws_col - 1U : 79U));
}

base::Status Terminal::hide_status() {
  if (!is_status_shown_) return base::ok_status();
  is_status_shown_ = false;
  return write_all(kEraseLine);
}

base::Status Terminal::show_status() {
  if (status_.empty() || is_mid_line_) return base::ok_status();
  is_status_shown_ = true;
  return write_all(visible_status());
}

base::Status Terminal::write_output(std::string_view text, Join join, std::string_view open_label) {
  const Turn turn(this);
  if (is_failed_ || text.empty()) return base::ok_status();
  base::Status status = hide_status();
  if (std::exchange(are_bytes_open_, false) && status.ok()) status = write_lines("\n");
  if (!is_output_open_ && join == Join::kContinues && status.ok()) status = write_all(open_label);
  if (!is_output_open_ && join == Join::kCloses) text.remove_prefix(1);
  if (status.ok()) status = write_lines(text);
  if (!text.empty()) is_mid_line_ = text.back() != '\n';
  is_output_open_ = is_mid_line_;
  if (status.ok()) status = show_status();
  return report_once(std::move(status));
}

base::Status Terminal::write_bytes(std::string_view bytes) {
  const Turn turn(this);
  if (is_failed_ || bytes.empty()) return base::ok_status();
  base::Status status = hide_status();
  if (status.ok()) status = write_all(bytes);
  is_mid_line_ = are_bytes_open_ = bytes.back() != '\n';
  is_output_open_ = false;
  return report_once(std::move(status));
}

base::Status Terminal::write_notice(std::string_view line) {
  const Turn turn(this);
  if (is_failed_) return base::ok_status();
  base::Status status = hide_status();
  if (status.ok() && is_mid_line_) status = write_lines("\n");
  if (status.ok()) status = write_lines(line);
  is_mid_line_ = is_output_open_ = are_bytes_open_ = false;
  if (status.ok()) status = show_status();
  return report_once(std::move(status));
}

base::Status Terminal::set_status(std::string_view text) {
  const Turn turn(this);
  if (is_failed_ || !is_tty_ || status_ == text) return base::ok_status();
  base::Status status = hide_status();
  status_ = text;
  if (status.ok()) status = show_status();
  return report_once(std::move(status));
}

Terminals::Terminals(int out_fd, int err_fd) : out_(out_fd, "stdout") {
  if (!is_same_file(out_fd, err_fd)) err_ = std::make_unique<Terminal>(err_fd, "stderr");
}

void Terminals::cancel() {
  out_.cancel();
  if (err_) err_->cancel();
}

NoticeWriter::NoticeWriter(Terminal* terminal, std::string prefix)
    : terminal_(terminal), prefix_(std::move(prefix)), thread_([this] { run(); }) {}

NoticeWriter::~NoticeWriter() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    if (is_writing_ || !queue_.empty()) terminal_->cancel();
    changed_.notify_all();
  }
  thread_.join();
}

void NoticeWriter::line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::string lines;
  for (;;) {
    const std::size_t newline = text.find('\n');
    lines.append(prefix_).append(text.substr(0, newline)).push_back('\n');
    if (newline == std::string_view::npos) break;
    text.remove_prefix(newline + 1);
  }
  const std::lock_guard lock(mutex_);
  if (queue_.size() >= kMaxNotices) {
    ++left_out_;
    return;
  }
  queue_.push_back(std::move(lines));
  changed_.notify_all();
}

void NoticeWriter::status(std::string_view text) {
  const std::lock_guard lock(mutex_);
  status_ = text.empty() ? std::string() : prefix_ + std::string(text);
  is_status_new_ = true;
  changed_.notify_all();
}

bool NoticeWriter::flush_blocking(base::MonotonicTime deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline,
                             [this] { return queue_.empty() && left_out_ == 0 && !is_status_new_ && !is_writing_; });
}

void NoticeWriter::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_stopping_ || !queue_.empty() || left_out_ > 0 || is_status_new_; });
    if (is_stopping_) return;
    std::string text;
    // If a status has ended, erase it before the next notice, so that it is not drawn again below the notice.
    const bool is_status_over = is_status_new_ && status_.empty();
    const bool is_notice = !is_status_over && (!queue_.empty() || left_out_ > 0);
    if (is_status_over) {
      is_status_new_ = false;
    } else if (!queue_.empty()) {
      text = std::move(queue_.front());
      queue_.pop_front();
    } else if (left_out_ > 0) {
      text = fmt::format("{}{} more lines were left out: the terminal was too slow\n", prefix_, left_out_);
      left_out_ = 0;
    } else {
      text = status_;
      is_status_new_ = false;
    }
    is_writing_ = true;
    lock.unlock();
    // Ignore an error of stderr, because no other place remains to report it.
    (void)(is_notice ? terminal_->write_notice(text) : terminal_->set_status(text));
    lock.lock();
    is_writing_ = false;
    changed_.notify_all();
  }
}

}  // namespace muster::launcherd::output
