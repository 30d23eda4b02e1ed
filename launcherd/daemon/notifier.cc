#include "launcherd/daemon/notifier.h"

#include <utility>
#include <vector>

#include "launcherd/hosts/ask_program.h"

namespace muster::launcherd::inline daemon {
namespace {

std::vector<std::string> words_of(const Notification& notification) {
  return {"env",
          fmt::format("MUSTER_JOB_ID={}", notification.job.str()),
          fmt::format("MUSTER_JOB_STATE={}", model::name_of(notification.state)),
          fmt::format("MUSTER_EXIT_CODE={}", notification.exit_code),
          "/bin/sh",
          "-c",
          notification.command};
}

}  // namespace

Notifier::~Notifier() {
  gate_.close();
  cancel_.cancel();
}

void Notifier::run(Notification notification, std::function<void(const base::Status&)> done) {
  auto finish = gate_.wrap(std::move(done));
  const base::Status posted = workers_.post([this, notification = std::move(notification), finish] {
    const Waiter waiter{.cancel_fd = cancel_.fd(), .deadline = base::monotonic_now() + limit_};
    base::Status status = waiter.check();
    if (status.ok()) status = ask_program("the command", words_of(notification), waiter).status();
    loop_.post([finish, status] { finish(status); });
  });
  if (!posted.ok()) loop_.post([finish, posted] { finish(posted); });
}

}  // namespace muster::launcherd::daemon
