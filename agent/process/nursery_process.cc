// The nursery process: NurseryProcess is its loop, run_warden_maker() is one child of it. Encoding and decoding are at
// the end. Read NurseryProcess::run() and begin() first, then run_warden_maker().

#include "agent/process/nursery_process.h"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "agent/process/own_process.h"
#include "agent/process/wire.h"

namespace muster::agent::inline process {
namespace {

constexpr std::size_t kWardenPartFds = 4;  // the warden's socket, <session>/alive, the lease's page and its eventfd

bool flush_blocking(MessageSocket& socket) {
  while (true) {
    if (!socket.flush().ok()) return false;
    if (!socket.wants_to_write()) return true;
    pollfd wanted{socket.fd(), POLLOUT, 0};
    if (::poll(&wanted, 1, -1) < 0 && errno != EINTR) return false;
  }
}

// Runs in a child of the nursery, the maker: makes one warden, hands it over, and waits until the agent has it. If the
// agent has ended, nothing receives the warden. The warden notices by itself that its agent has ended.
[[noreturn]] void run_warden_maker(const std::string& payload, base::UniqueFd answer, const WardenOwner& owner) {
  ::prctl(PR_SET_NAME, "muster-midwife");
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);  // a stopped maker must end with its nursery
  ::signal(SIGCHLD, SIG_DFL);
  MessageSocket socket(std::move(answer));
  const auto make = [&]() -> base::Result<WardenParts> {
    MUSTER_RETURN_IF_ERROR(become_supervisor());
    MUSTER_ASSIGN_OR_RETURN(const WardenOptions options, decode_warden_options(payload));
    return make_warden(options, owner);
  };
  SocketMessage message = encode_warden_parts(make());
  socket.send(std::move(message.payload), std::move(message.fds));
  if (!flush_blocking(socket)) ::_exit(1);
  pollfd wanted{socket.fd(), POLLIN, 0};  // the only event that can come is the end of the socket
  while (::poll(&wanted, 1, -1) < 0 && errno == EINTR) {
  }
  ::_exit(0);
}

class NurseryProcess {
 public:
  NurseryProcess(base::UniqueFd socket, WardenOwner owner) : socket_(std::move(socket)), owner_(std::move(owner)) {}

  [[noreturn]] void run() {
    if (!set_up().ok()) ::_exit(1);
    while (true) {
      std::array<pollfd, 2> wanted{{{socket_.fd(), POLLIN, 0}, {owner_.pidfd.get(), POLLIN, 0}}};
      if (::poll(wanted.data(), wanted.size(), -1) <= 0) continue;
      if (wanted[1].revents != 0) ::_exit(0);
      auto messages = socket_.receive();
      if (!messages.ok()) ::_exit(1);
      for (SocketMessage& message : *messages) begin(std::move(message));
      if (socket_.peer_gone()) ::_exit(0);
    }
  }

 private:
  base::Status set_up() {
    ::setsid();
    ::prctl(PR_SET_NAME, "muster-nursery");
    // If the agent ends while the nursery is stopped, the kernel continues the nursery, which then ends.
    ::prctl(PR_SET_PDEATHSIG, SIGCONT);
    std::vector<int> kept{socket_.fd()};
    if (owner_.pidfd.valid()) kept.push_back(owner_.pidfd.get());
    MUSTER_RETURN_IF_ERROR(keep_only_descriptors(kept));
    // Makers report to the agent by themselves, so ignore their ends. The kernel then reaps them.
    ::signal(SIGCHLD, SIG_IGN);
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    return base::ok_status();
  }

  void begin(SocketMessage message) {
    MUSTER_CHECK(message.fds.size() == 1);
    const pid_t pid = ::fork();
    if (pid == 0) {
      socket_.close();
      run_warden_maker(message.payload, std::move(message.fds.front()), owner_);
    }
    if (pid > 0) return;
    const base::Status failed = base::errno_error(errno, "fork the warden");
    MessageSocket answer(std::move(message.fds.front()));
    SocketMessage refusal = encode_warden_parts(failed);
    answer.send(std::move(refusal.payload));
    // Ignore errors: they mean that the agent has ended. This message fits into an empty socket without waiting.
    (void)answer.flush();
  }

  MessageSocket socket_;
  WardenOwner owner_;
};

}  // namespace

void run_nursery(base::UniqueFd socket, WardenOwner owner) {
  NurseryProcess(std::move(socket), std::move(owner)).run();
}

std::string encode(const WardenOptions& options) {
  WireWriter writer;
  writer.text(options.job_id);
  writer.text(options.agent_id);
  writer.text(options.session_root);
  writer.number(options.contain);
  writer.number(options.lease_margin.count());
  writer.number(options.agent_patience.count());
  return writer.take();
}

base::Result<WardenOptions> decode_warden_options(const std::string& payload) {
  WireReader reader(payload);
  WardenOptions options;
  std::chrono::milliseconds::rep margin = 0;
  std::chrono::milliseconds::rep patience = 0;
  if (!reader.text(options.job_id) || !reader.text(options.agent_id) || !reader.text(options.session_root) ||
      !reader.number(options.contain) || !reader.number(margin) || !reader.number(patience) || !reader.at_end()) {
    return base::internal_error("the nursery received an unknown request");
  }
  options.lease_margin = std::chrono::milliseconds(margin);
  options.agent_patience = std::chrono::milliseconds(patience);
  return options;
}

SocketMessage encode_warden_parts(base::Result<WardenParts> made) {
  WireWriter writer;
  SocketMessage message;
  writer.number(made.ok());
  if (!made.ok()) {
    writer.number(made.status().code());
    writer.text(made.status().message());
  } else {
    writer.text(made->session.path());
    writer.text(encode(made->fork.ready));
    message.fds.push_back(made->fork.socket.release());
    message.fds.push_back(made->session.release_lock());
    message.fds.push_back(made->lease.release_page());
    message.fds.push_back(made->lease.release_wake());
  }
  message.payload = writer.take();
  return message;
}

base::Result<WardenParts> decode_warden_parts(SocketMessage message) {
  const base::Status malformed = base::internal_error("the nursery's answer was not a warden");
  WireReader reader(message.payload);
  bool is_ok = false;
  if (!reader.number(is_ok)) return malformed;
  if (!is_ok) {
    base::Code code{};
    std::string text;
    if (!reader.number(code) || !reader.text(text) || !reader.at_end()) return malformed;
    return base::error(code, "{}", text);
  }
  std::string path;
  std::string ready_bytes;
  if (!reader.text(path) || !reader.text(ready_bytes) || !reader.at_end() || message.fds.size() != kWardenPartFds) {
    return malformed;
  }
  MUSTER_ASSIGN_OR_RETURN(WardenReady ready, decode_ready(ready_bytes));
  MUSTER_ASSIGN_OR_RETURN(LeasePage lease, LeasePage::attach(std::move(message.fds[2]), std::move(message.fds[3])));
  return WardenParts{SessionDir::adopt(std::move(path), std::move(message.fds[1])), std::move(lease),
                     WardenFork{MessageSocket(std::move(message.fds[0])), std::move(ready)}};
}

}  // namespace muster::agent::process
