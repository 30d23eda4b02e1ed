#include "agent/link/dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace muster::agent::inline link {
namespace {

constexpr std::chrono::milliseconds kDialAgain{1'000};

struct Attempt {
  base::IpAddress address;
  base::UniqueFd fd;
  std::string failure;  // empty while the attempt is under way
};

Attempt begin(const base::IpAddress& address, std::uint16_t port) {
  Attempt attempt{address, {}, ""};
  const base::SockAddr to = base::make_sockaddr(address, port);
  attempt.fd.reset(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!attempt.fd.valid()) {
    attempt.failure = std::strerror(errno);
    return attempt;
  }
  const int on = 1;
  ::setsockopt(attempt.fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(attempt.fd.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) {
    attempt.failure = std::strerror(errno);
    attempt.fd.reset();
  }
  return attempt;
}

// Opens a second connection to each silent address. The kernel repeats a lost SYN only after 1, 3 and 7 s, so a new
// connection may be faster.
void dial_again(std::vector<Attempt>& attempts, std::uint16_t port) {
  std::vector<base::IpAddress> silent;
  for (const Attempt& attempt : attempts) {
    const bool is_known = std::find(silent.begin(), silent.end(), attempt.address) != silent.end();
    if (attempt.fd.valid() && !is_known) silent.push_back(attempt.address);
  }
  for (const base::IpAddress& address : silent) attempts.push_back(begin(address, port));
}

base::Status all_failed(const std::vector<Attempt>& attempts, std::uint16_t port) {
  std::string text;
  std::vector<std::string> sentences;
  for (const Attempt& attempt : attempts) {
    std::string sentence =
        base::format_endpoint(attempt.address, port) + ": " + (attempt.failure.empty() ? "no answer" : attempt.failure);
    if (std::find(sentences.begin(), sentences.end(), sentence) != sentences.end()) continue;
    text += (text.empty() ? "" : ", ") + sentence;
    sentences.push_back(std::move(sentence));
  }
  return base::unavailable("{}", text.empty() ? "no address of the launcher is known" : text);
}

}  // namespace

std::vector<base::IpAddress> addresses_of(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  std::vector<base::IpAddress> addresses;
  for (const std::string& text : texts) {
    const auto address = base::IpAddress::parse(text);
    if (address.ok() && std::find(addresses.begin(), addresses.end(), *address) == addresses.end()) {
      addresses.push_back(*address);
    }
  }
  return addresses;
}

std::vector<base::IpAddress> launcher_addresses(const v1::AgentJoin& join, const v1::Hello& hello) {
  google::protobuf::RepeatedPtrField<std::string> texts;
  if (!hello.ssh_client_address().empty()) *texts.Add() = hello.ssh_client_address();
  texts.MergeFrom(join.launcher_addresses());
  return addresses_of(texts);
}

base::Result<Dialled> dial_first(const std::vector<base::IpAddress>& addresses, std::uint16_t port,
                                 base::MonotonicTime deadline, int cancel_fd) {
  std::vector<Attempt> attempts;
  for (const base::IpAddress& address : addresses) attempts.push_back(begin(address, port));
  base::MonotonicTime again = std::chrono::steady_clock::now() + kDialAgain;
  while (true) {
    if (std::chrono::steady_clock::now() >= again) {
      dial_again(attempts, port);
      again += kDialAgain;
    }
    std::vector<pollfd> polled;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      if (!attempts[i].fd.valid()) continue;
      polled.push_back({attempts[i].fd.get(), POLLOUT, 0});
      owner.push_back(i);
    }
    if (polled.empty()) return all_failed(attempts, port);
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return all_failed(attempts, port);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min(deadline, again) - now).count();
    if (cancel_fd >= 0) polled.push_back({cancel_fd, POLLIN, 0});
    const int ready = ::poll(polled.data(), polled.size(), static_cast<int>(std::clamp<long>(left, 0, 60'000)));
    if (ready < 0 && errno != EINTR) return base::errno_error(errno, "wait for a connection to the launcher");
    if (ready <= 0) continue;
    if (cancel_fd >= 0 && polled.back().revents != 0) return base::cancelled("dialling was cancelled");
    for (std::size_t k = 0; k < owner.size(); ++k) {
      if (polled[k].revents == 0) continue;
      Attempt& attempt = attempts[owner[k]];
      int failure = 0;
      socklen_t size = sizeof failure;
      ::getsockopt(attempt.fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
      if (failure == 0) return Dialled{attempt.address, std::move(attempt.fd)};
      attempt.failure = std::strerror(failure);
      attempt.fd.reset();
    }
  }
}

}  // namespace muster::agent::link
