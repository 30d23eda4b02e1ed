#include "launcherd/cleanup/host_command.h"

#include <utility>

namespace muster::launcherd::inline cleanup {

class HostCommand::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(base::Loop& loop, Bootstrap* bootstrap, std::vector<model::HostSpec> hosts, std::vector<std::string> arguments,
       Events events)
      : loop_(loop),
        bootstrap_(bootstrap),
        hosts_(std::move(hosts)),
        arguments_(std::move(arguments)),
        events_(std::move(events)) {}

  void start();
  void drop() { is_dropped_ = true; }

 private:
  void answered(std::size_t index, const base::Result<CommandResult>& result);
  void report_progress() const;

  base::Loop& loop_;
  Bootstrap* const bootstrap_;
  const std::vector<model::HostSpec> hosts_;
  const std::vector<std::string> arguments_;
  const Events events_;
  Results results_;
  std::vector<bool> is_answered_;
  std::size_t open_ = 0;
  bool is_dropped_ = false;
};

void HostCommand::Core::start() {
  results_.assign(hosts_.size(), base::unavailable("it has not answered"));
  is_answered_.resize(hosts_.size());
  open_ = hosts_.size();
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const model::HostSpec& host = hosts_[i];
    bootstrap_->run({.name = host.name, .user = host.user, .port = host.port}, arguments_,
                    [weak = weak_from_this(), &loop = loop_, i](const base::Result<CommandResult>& result) {
                      loop.post([weak, i, result] {
                        const auto core = weak.lock();
                        if (core != nullptr && !core->is_dropped_) core->answered(i, result);
                      });
                    });
  }
  report_progress();
}

void HostCommand::Core::answered(std::size_t index, const base::Result<CommandResult>& result) {
  results_[index] = result;
  is_answered_[index] = true;
  report_progress();
  if (--open_ == 0) events_.on_done(std::move(results_));
}

void HostCommand::Core::report_progress() const {
  if (!events_.on_progress) return;
  std::vector<std::string> waiting;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!is_answered_[i]) waiting.push_back(hosts_[i].name);
  }
  events_.on_progress(waiting);
}

HostCommand::HostCommand(base::Loop& loop, Bootstrap* bootstrap, std::vector<model::HostSpec> hosts,
                         std::vector<std::string> arguments, Events events)
    : core_(std::make_shared<Core>(loop, bootstrap, std::move(hosts), std::move(arguments), std::move(events))) {}

HostCommand::~HostCommand() {
  core_->drop();
}

void HostCommand::start() {
  core_->start();
}

}  // namespace muster::launcherd::cleanup
