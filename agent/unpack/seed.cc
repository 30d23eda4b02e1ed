// The seed: a process with one thread and non-blocking sockets.
// Read start_seed() at the end first, then serve_peers(), then Peer.
#include "agent/unpack/seed.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace muster::agent::inline unpack {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kMostPeers = 64;  // more wait in the queue of the listening socket
constexpr std::chrono::seconds kSeedTime{60};
constexpr std::chrono::seconds kPeerPatience{10};  // without a byte to or from a peer
constexpr std::size_t kPieceOfFile = 256 * 1024;   // to one peer, before the next gets its turn

class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {}
  ~Peer() {
    if (fd_ >= 0) ::close(fd_);
  }
  Peer(Peer&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        token_(std::move(other.token_)),
        at_(other.at_),
        moved_at_(other.moved_at_) {}
  Peer& operator=(Peer&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(token_, other.token_);
    std::swap(at_, other.at_);
    std::swap(moved_at_, other.moved_at_);
    return *this;
  }

  pollfd wanted() const { return {fd_, static_cast<short>(token_.size() < kTokenSize ? POLLIN : POLLOUT), 0}; }

  // Moves some bytes. Returns false if the connection is over.
  bool serve(int file, off_t size, std::string_view token) {
    const bool is_over = token_.size() < kTokenSize ? !read_token(token) : !send_piece(file, size);
    return !is_over && SteadyClock::now() - moved_at_ < kPeerPatience;
  }

 private:
  bool read_token(std::string_view token) {
    char bytes[kTokenSize];
    const ssize_t count = ::recv(fd_, bytes, kTokenSize - token_.size(), MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    token_.append(bytes, static_cast<std::size_t>(count));
    moved_at_ = SteadyClock::now();
    return count > 0 && (token_.size() < kTokenSize || token_ == token);
  }

  bool send_piece(int file, off_t size) {
    const ssize_t count = ::sendfile(fd_, file, &at_, kPieceOfFile);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count > 0) moved_at_ = SteadyClock::now();
    return count > 0 && at_ < size;
  }

  int fd_;
  std::string token_;  // what has arrived of it
  off_t at_ = 0;
  SteadyClock::time_point moved_at_ = SteadyClock::now();
};

void accept_peers(int listener, std::vector<Peer>& peers) {
  while (peers.size() < kMostPeers) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    peers.emplace_back(fd);
  }
}

// The process of the seed, after the second fork. It never returns.
[[noreturn]] void run_seed(int listener, const std::string& path, const std::string& token, int agent) {
  ::setsid();
  ::prctl(PR_SET_NAME, "muster-seed");  // as `ps` shows it
  ::signal(SIGPIPE, SIG_IGN);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  if (file >= 0) serve_peers(listener, file, token, kSeedTime, agent);
  ::_exit(0);
}

}  // namespace

Problem listen_for_peers(int& fd, int& port) {
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_in6);
  reinterpret_cast<sockaddr_in6&>(address).sin6_family = AF_INET6;
  fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int no = 0;
  if (fd >= 0) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  } else {  // a kernel without IPv6
    address = {};
    address.ss_family = AF_INET;
    size = sizeof(sockaddr_in);
    fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }
  if (fd < 0) return errno_problem(errno, "cannot make a socket");
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd, 128) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const int error = errno;
    ::close(std::exchange(fd, -1));
    return errno_problem(error, "cannot listen");
  }
  port = ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
  return {};
}

void serve_peers(int listener, int file, std::string_view token, std::chrono::milliseconds time, int agent) {
  struct stat info {};
  if (::fstat(file, &info) != 0) return;
  const auto end = SteadyClock::now() + time;
  std::vector<Peer> peers;
  for (auto now = SteadyClock::now(); now < end; now = SteadyClock::now()) {
    std::vector<pollfd> fds = {{agent, POLLIN, 0}, {peers.size() < kMostPeers ? listener : -1, POLLIN, 0}};
    for (const Peer& peer : peers) fds.push_back(peer.wanted());
    const auto wait = std::min<std::chrono::milliseconds>(std::chrono::ceil<std::chrono::milliseconds>(end - now),
                                                          std::chrono::milliseconds(1000));
    if (::poll(fds.data(), fds.size(), static_cast<int>(wait.count())) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0) return;
    std::erase_if(peers, [&](Peer& peer) { return !peer.serve(file, info.st_size, token); });
    if (fds[1].revents != 0) accept_peers(listener, peers);
  }
}

Problem start_seed(const std::string& path, const std::string& token, int& port) {
  int listener = -1;
  if (Problem problem = listen_for_peers(listener, port); !problem.empty()) return problem;
  const int agent = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
  Problem problem;
  if (agent < 0) problem = errno_problem(errno, "cannot watch the agent");
  const pid_t child = problem.empty() ? ::fork() : -1;
  if (child == 0) {  // the seed is a child of this child, so that the agent never has to reap it
    const pid_t seed = ::fork();
    if (seed != 0) ::_exit(seed > 0 ? 0 : 1);
    run_seed(listener, path, token, agent);
  }
  int status = 1;
  if (child > 0) {
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (problem.empty() && status != 0) problem = "cannot start a process";
  ::close(listener);
  if (agent >= 0) ::close(agent);
  return problem;
}

}  // namespace muster::agent::unpack
