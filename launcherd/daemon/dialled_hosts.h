// The hosts of a launcherd: those of its list, and those whose agents have come by themselves (--accept-agents), for as
// long as the agent is here or runs for us. Which those are outlives a launcherd: its jobs may run on there. Loop
// thread only.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "model/host_spec.h"

namespace muster::launcherd::inline daemon {

class DialledHosts {
 public:
  struct Options {
    std::string file;  // which hosts have come, one a line
    // Whether the host's agent waits, or runs for the pool.
    std::function<bool(const std::string& host)> is_here;
    std::function<void(const std::vector<model::HostSpec>&)> on_hosts;  // another list
    std::function<void(const std::string& host)> on_left;
    std::function<void(const std::string&)> on_line;
    // An agent that ends comes again; a host without one for so long has left.
    std::chrono::milliseconds patience{30'000};
  };
  // DATA_LOSS: the file is not one.
  static base::Result<std::unique_ptr<DialledHosts>> load(base::Loop& loop, std::vector<model::HostSpec> listed,
                                                          Options options);

  std::vector<model::HostSpec> hosts() const;  // of the list first
  std::vector<std::string> names() const;      // of those that came by themselves
  void replace_listed(std::vector<model::HostSpec> listed);

  void come(const std::string& host, int slots);
  // Its connection or its agent has ended, or is in another state: whether it is still here is asked after a while.
  void look_again(const std::string& host);

 private:
  struct Host {
    int slots = 1;
    base::Timer look;
  };
  DialledHosts(base::Loop& loop, std::vector<model::HostSpec> listed, Options options)
      : loop_(loop), listed_(std::move(listed)), options_(std::move(options)) {}
  base::Status read();
  void look(std::string host);
  void changed();

  base::Loop& loop_;
  std::vector<model::HostSpec> listed_;
  const Options options_;
  std::map<std::string, Host> came_;
};

}  // namespace muster::launcherd::daemon
