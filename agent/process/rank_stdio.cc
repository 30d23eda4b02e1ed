#include "agent/process/rank_stdio.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace muster::agent::inline process {
namespace {

constexpr int kPipeBytes = 1 << 20;

base::Result<base::FdPair> make_output_pipe() {
  MUSTER_ASSIGN_OR_RETURN(base::FdPair pipe, base::make_pipe());
  // Ignore errors: the kernel refuses if the user's pipes already take much memory. The default size is enough then.
  ::fcntl(pipe.first.get(), F_SETPIPE_SZ, kPipeBytes);
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(pipe.first.get(), true));
  return pipe;
}

base::Status make_terminal(const SpawnRequest& request, RankStdio& stdio) {
  base::UniqueFd master(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  if (!master.valid()) return base::errno_error(errno, "cannot make a terminal: open /dev/ptmx");
  const int unlocked = 0;
  if (::ioctl(master.get(), TIOCSPTLCK, &unlocked) != 0) return base::errno_error(errno, "cannot unlock a terminal");
  // Do not open the terminal by its name. Another mount of /dev/pts may give that name to another terminal.
  stdio.child_stdin.reset(::ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!stdio.child_stdin.valid()) return base::errno_error(errno, "cannot open a terminal");
  const winsize size{request.rows, request.columns, 0, 0};
  if (::ioctl(master.get(), TIOCSWINSZ, &size) != 0) return base::errno_error(errno, "cannot size a terminal");
  for (base::UniqueFd* end : {&stdio.child_stdout, &stdio.child_stderr}) {
    end->reset(::fcntl(stdio.child_stdin.get(), F_DUPFD_CLOEXEC, 3));
    if (!end->valid()) return base::errno_error(errno, "copy a terminal's descriptor");
  }
  stdio.stdin_fd.reset(::fcntl(master.get(), F_DUPFD_CLOEXEC, 3));
  if (!stdio.stdin_fd.valid()) return base::errno_error(errno, "copy a terminal's descriptor");
  stdio.stdout_fd = std::move(master);
  return base::ok_status();
}

base::Status make_pipes(const SpawnRequest& request, RankStdio& stdio) {
  if (request.stdin_of == StdinOf::kPipe) {
    MUSTER_ASSIGN_OR_RETURN(base::FdPair in, base::make_pipe());
    MUSTER_RETURN_IF_ERROR(base::set_nonblocking(in.second.get(), true));
    stdio.child_stdin = std::move(in.first);
    stdio.stdin_fd = std::move(in.second);
  }
  MUSTER_ASSIGN_OR_RETURN(base::FdPair out, make_output_pipe());
  MUSTER_ASSIGN_OR_RETURN(base::FdPair err, make_output_pipe());
  stdio.stdout_fd = std::move(out.first);
  stdio.child_stdout = std::move(out.second);
  stdio.stderr_fd = std::move(err.first);
  stdio.child_stderr = std::move(err.second);
  return base::ok_status();
}

base::Status make_pmi_socket(RankStdio& stdio) {
  MUSTER_ASSIGN_OR_RETURN(base::FdPair pair, base::make_socketpair(SOCK_STREAM));
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(pair.first.get(), true));
  // The child duplicates its end to kPmiDescriptor. dup3 fails if both numbers are equal, so move an end that already
  // has this number.
  if (pair.second.get() == kPmiDescriptor) {
    pair.second.reset(::fcntl(pair.second.get(), F_DUPFD_CLOEXEC, kPmiDescriptor + 1));
    if (!pair.second.valid()) return base::errno_error(errno, "copy a socket's descriptor");
  }
  stdio.pmi_fd = std::move(pair.first);
  stdio.child_pmi = std::move(pair.second);
  return base::ok_status();
}

}  // namespace

base::Result<RankStdio> RankStdio::create(const SpawnRequest& request) {
  RankStdio stdio;
  MUSTER_RETURN_IF_ERROR(request.stdin_of == StdinOf::kTerminal ? make_terminal(request, stdio)
                                                                : make_pipes(request, stdio));
  if (request.wants_pmi) MUSTER_RETURN_IF_ERROR(make_pmi_socket(stdio));
  return stdio;
}

}  // namespace muster::agent::process
