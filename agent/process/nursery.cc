#include "agent/process/nursery.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "agent/proc/proc_table.h"
#include "agent/process/nursery_process.h"
#include "agent/process/own_process.h"

namespace muster::agent::inline process {

base::Result<std::optional<Warden>> PendingWarden::take() {
  MUSTER_ASSIGN_OR_RETURN(auto messages, socket_.receive());
  if (messages.empty()) {
    if (!socket_.peer_gone()) return std::optional<Warden>();
    return base::unavailable("the process that makes the job's warden has ended");
  }
  MUSTER_ASSIGN_OR_RETURN(WardenParts parts, decode_warden_parts(std::move(messages.front())));
  MUSTER_ASSIGN_OR_RETURN(Warden warden, Warden::adopt(options_, std::move(parts)));
  // Close the socket only now, because this ends the maker. The warden then becomes a child of this process.
  socket_.close();
  return std::optional<Warden>(std::move(warden));
}

base::Result<Nursery> Nursery::start() {
  MUSTER_RETURN_IF_ERROR(become_supervisor());
  MUSTER_ASSIGN_OR_RETURN(base::FdPair pair, base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK));
  WardenOwner owner{::getpid(), open_pidfd(::getpid())};
  const pid_t pid = ::fork();
  if (pid < 0) return base::errno_error(errno, "fork the nursery of wardens");
  if (pid == 0) {
    pair.first.reset();
    run_nursery(std::move(pair.second), std::move(owner));
  }
  return Nursery(std::move(pair.first), pid);
}

Nursery::~Nursery() {
  if (socket_.fd() < 0) return;  // this object was moved from
  socket_.close();
  ::kill(pid_, SIGCONT);        // a nursery that was stopped must end, too; it is our unreaped child
  ::waitpid(pid_, nullptr, 0);  // the nursery ends at once
}

base::Result<PendingWarden> Nursery::ask(const WardenOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(base::FdPair answer, base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK));
  std::vector<base::UniqueFd> fds;
  fds.push_back(std::move(answer.second));
  socket_.send(encode(options), std::move(fds));
  const base::Status sent = socket_.flush();
  if (!sent.ok()) return base::unavailable("the nursery of wardens (pid {}) has ended", pid_);
  return PendingWarden(options, std::move(answer.first));
}

}  // namespace muster::agent::process
