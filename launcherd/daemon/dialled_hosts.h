// The hosts of a launcherd: those of its list, and those whose agents have connected by themselves (--accept-agents). A
// dialled host stays as long as its agent is connected and unused, or runs for the pool. A file keeps these hosts for
// the next launcherd, because jobs may continue on them.
//
// Owner: Daemon.
// Thread: loop thread only.
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
    std::string file;  // the hosts that have connected, one a line
    // Returns whether the host's agent waits here or runs for the pool.
    std::function<bool(const std::string& host)> is_here;
    std::function<void(const std::vector<model::HostSpec>&)> on_hosts;  // called with the new list of all hosts
    std::function<void(const std::string& host)> on_left;
    std::function<void(const std::string&)> on_line;
    // An agent that loses its connection connects again. A host without an agent for this long has left.
    std::chrono::milliseconds patience{30'000};
  };
  // DATA_LOSS: the file is corrupt.
  static base::Result<std::unique_ptr<DialledHosts>> load(base::Loop& loop, std::vector<model::HostSpec> listed,
                                                          Options options);

  std::vector<model::HostSpec> hosts() const;  // hosts of the list first
  std::vector<std::string> names() const;      // names of the hosts that connected by themselves
  void replace_listed(std::vector<model::HostSpec> listed);

  void join(const std::string& host, int slots);
  // Call it when the host's connection or agent has ended or changed. It checks after `patience` whether the host is
  // still here.
  void recheck_later(const std::string& host);

 private:
  struct Host {
    int slots = 1;
    base::Timer recheck;
  };
  DialledHosts(base::Loop& loop, std::vector<model::HostSpec> listed, Options options)
      : loop_(loop), listed_(std::move(listed)), options_(std::move(options)) {}
  base::Status read();
  void recheck(std::string host);
  void changed();

  base::Loop& loop_;
  std::vector<model::HostSpec> listed_;
  const Options options_;
  std::map<std::string, Host> joined_;
};

}  // namespace muster::launcherd::daemon
