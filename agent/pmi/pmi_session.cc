#include "agent/pmi/pmi_session.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace muster::agent::inline pmi {
namespace {

constexpr std::size_t kReadBytes = 4 << 10;
constexpr int kReadsOfDrain = 256;            // more than a socket holds
constexpr std::size_t kMaxUnsent = 64 << 10;  // clients send one command at a time

}  // namespace

PmiSession::PmiSession(base::Loop& loop, base::UniqueFd socket, Answer answer, Problem on_problem)
    : loop_(loop), socket_(std::move(socket)), answer_(std::move(answer)), on_problem_(std::move(on_problem)) {
  const int on = 1;
  // Ignore errors: only the sender's pid stays unknown.
  (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  readable_ = loop_.on_readable(socket_.get(), [this] { readable(); });
}

void PmiSession::readable() {
  (void)read_some();
}

void PmiSession::drain() {
  for (int i = 0; i < kReadsOfDrain && is_open() && read_some(); ++i) {
  }
  close();
}

// False if there is nothing more now, or ever.
bool PmiSession::read_some() {
  char bytes[kReadBytes];
  const ssize_t count = receive(bytes, sizeof bytes);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0) {
    // Normal after finalize, or when the rank ends. The warden reports the rank's end.
    close();
    return false;
  }
  reader_.append({bytes, static_cast<std::size_t>(count)});
  obey();
  return is_open();
}

ssize_t PmiSession::receive(char* bytes, std::size_t size) {
  iovec part{bytes, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  // The buffer has no room for descriptors. If a process sends any, the kernel closes them.
  const ssize_t count = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); count > 0 && each != nullptr; each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_CREDENTIALS) continue;
    ucred credentials{};
    std::memcpy(&credentials, CMSG_DATA(each), sizeof credentials);
    sender_ = credentials.pid;
  }
  return count;
}

void PmiSession::obey() {
  while (is_open()) {
    const auto command = reader_.next();
    if (!command.ok()) return fail(command.status());
    if (!command->has_value()) return;
    const auto lines = answer_(**command);
    if (!lines.ok()) return fail(lines.status());
    send(*lines);
  }
}

void PmiSession::send(std::string_view lines) {
  if (!is_open() || is_write_closed_ || lines.empty()) return;
  unsent_.append(lines);
  flush();
  if (unsent_.size() > kMaxUnsent) {
    fail(base::resource_exhausted("it sends requests without reading the answers"));
  }
}

void PmiSession::flush() {
  while (!unsent_.empty()) {
    const ssize_t count = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      if (!writable_.armed()) writable_ = loop_.on_writable(socket_.get(), [this] { flush(); });
      return;
    }
    is_write_closed_ = count < 0;  // true if the peer is gone; its earlier commands are still read
    unsent_.erase(0, is_write_closed_ ? unsent_.size() : static_cast<std::size_t>(count));
  }
  writable_.cancel();
}

void PmiSession::close() {
  readable_.cancel();
  writable_.cancel();
  unsent_.clear();
  socket_.reset();
}

void PmiSession::fail(const base::Status& why) {
  close();
  on_problem_(why);
}

}  // namespace muster::agent::pmi
