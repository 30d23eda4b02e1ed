// muster-pmix: the PMIx server of one job on one host, for programs of Open MPI.
// The agent is static and cannot load a library of the host. It carries this program in itself and starts it when the
// first rank connects (docs/adr/0020).
//
//   muster-pmix FD    FD is a socket to the agent; its messages are in agent/pmix/messages.h
//
// Read Helper::run() first, then Helper::report() and the on() functions, one for each command of the agent.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "agent/pmix/helper/server.h"
#include "agent/pmix/messages.h"
#include "agent/process/message_socket.h"
#include "base/print.h"
#include "base/strings.h"

namespace muster::agent::pmix {
namespace {

// Tasks that other threads hand to the main thread.
class Tasks {
 public:
  Tasks() : bell_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  int fd() const { return bell_.get(); }

  void post(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(task));
    }
    ::eventfd_write(bell_.get(), 1);
  }

  void run() {
    eventfd_t count = 0;
    ::eventfd_read(bell_.get(), &count);
    std::deque<std::function<void()>> due;
    {
      const std::lock_guard lock(mutex_);
      due.swap(waiting_);
    }
    for (const std::function<void()>& task : due) task();
  }

 private:
  base::UniqueFd bell_;
  std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
};

class Helper {
 public:
  explicit Helper(base::UniqueFd agent) : agent_(std::move(agent), kMaxMessage) {}

  // Runs until the agent closes the socket.
  base::Status run() {
    while (true) {
      MUSTER_RETURN_IF_ERROR(agent_.flush());
      const short events_wanted = agent_.wants_to_write() ? POLLIN | POLLOUT : POLLIN;
      pollfd events[] = {{agent_.fd(), events_wanted, 0}, {tasks_.fd(), POLLIN, 0}};
      if (::poll(events, 2, -1) < 0 && errno != EINTR) return base::errno_error(errno, "wait for the agent");
      if (events[1].revents != 0) tasks_.run();
      if (events[0].revents == 0) continue;
      MUSTER_ASSIGN_OR_RETURN(std::vector<SocketMessage> messages, agent_.receive());
      for (SocketMessage& message : messages) MUSTER_RETURN_IF_ERROR(handle(message));
      if (agent_.peer_gone()) return base::ok_status();
    }
  }

 private:
  // Returns only when the event is written. The rank that waits for the answer may end right afterwards, and the
  // agent judges the rank by the events that it has read.
  // The wait is short, because the agent always reads. run() notices if the agent is lost.
  void report(const Event& event) {
    agent_.send(encode(event));
    while (agent_.flush().ok() && agent_.wants_to_write()) {
      pollfd room{agent_.fd(), POLLOUT, 0};
      if (::poll(&room, 1, -1) < 0 && errno != EINTR) return;
    }
  }

  base::Status handle(SocketMessage& message) {
    MUSTER_ASSIGN_OR_RETURN(Command command, decode_command(message.payload));
    return std::visit([&](auto& each) { return on(each, message.fds); }, command);
  }

  using Fds = std::vector<base::UniqueFd>;

  base::Status on(const BeginServer& begin, Fds&) {
    auto server = Server::start(
        begin, [this](std::function<void()> task) { tasks_.post(std::move(task)); },
        [this](const Event& event) { report(event); });
    report(Ready{server.status().message(), server.ok() ? (*server)->version() : ""});
    if (server.ok()) server_ = std::move(*server);
    return base::ok_status();
  }

  base::Status on(const Placement& placement, Fds&) {
    if (!server_) return base::ok_status();
    const base::Status placed = server_->place(placement);
    if (!placed.ok()) report(Ready{placed.message(), server_->version()});
    return base::ok_status();
  }

  // If a rank's socket cannot be handed over, the rank sees its connection closed.
  base::Status on(const Connection&, Fds& fds) {
    for (base::UniqueFd& fd : fds) {
      if (!server_) continue;
      const base::Status served = server_->serve(std::move(fd));
      if (!served.ok()) report(Ready{served.message(), server_->version()});
    }
    return base::ok_status();
  }

  base::Status on(const FenceDone& done, Fds&) {
    if (server_) server_->fence_done(done);
    return base::ok_status();
  }

  base::Status on(const WantRankData& wanted, Fds&) {
    if (server_) server_->want_rank_data(wanted);
    return base::ok_status();
  }

  base::Status on(const RankDataFound& found, Fds&) {
    if (server_) server_->rank_data_found(found);
    return base::ok_status();
  }

  base::Status on(const AddWorld& world, Fds&) {
    if (server_) report(WorldAdded{world.first, server_->add(world).message()});
    return base::ok_status();
  }

  base::Status on(const SpawnDone& done, Fds&) {
    if (server_) server_->spawn_done(done);
    return base::ok_status();
  }

  base::Status on(const NameAnswer& answer, Fds&) {
    if (server_) server_->name_answered(answer);
    return base::ok_status();
  }

  MessageSocket agent_;
  Tasks tasks_;
  std::unique_ptr<Server> server_;
};

int run(int argc, char** argv) {
  const auto fd = argc == 2 ? base::parse_decimal(argv[1], 1 << 20) : std::nullopt;
  if (!fd) {
    base::print_remark("muster-pmix is started by Muster's agent: it needs a socket\n");
    return 2;
  }
  // This signal kills the helper if the agent dies. run() also ends when the socket closes.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_DUMPABLE, 0);
  // This program was started through a descriptor, so the kernel named it after the descriptor's number.
  ::prctl(PR_SET_NAME, "muster-pmix");
  (void)::signal(SIGPIPE, SIG_IGN);
  Helper helper{base::UniqueFd(static_cast<int>(*fd))};
  const base::Status ended = helper.run();
  if (!ended.ok()) base::print_remark("muster-pmix: {}\n", ended.message());
  // Exit without destructors, because libpmix's threads still use state that destructors would remove.
  std::_Exit(ended.ok() ? 0 : 1);
}

}  // namespace
}  // namespace muster::agent::pmix

int main(int argc, char** argv) {
  return muster::agent::pmix::run(argc, argv);
}
