// Serves launcher.proto on a Unix socket, to processes of our own user. The gRPC server behind it is made when the
// first one connects: a job that nobody asks about pays for a listening socket only.
//
// Created, used and destroyed on the loop thread; gRPC's threads only translate and post.
#pragma once

#include <functional>
#include <memory>

#include "base/loop.h"
#include "base/status.h"
#include "launcherd/service/api_socket.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd {

// One answer, or several and then the end. Both do nothing when the caller has gone; any time later, loop thread.
template <typename Answer>
struct Replies {
  std::function<void(Answer)> send;
  std::function<void(const base::Status&)> done;
};

// What the calls do; loop thread.
class ApiHandler {
 public:
  virtual ~ApiHandler() = default;
  virtual base::Result<v1::Job> get_job(const v1::GetJobRequest& request) = 0;
  virtual base::Status kill(const v1::KillRequest& request) = 0;
  virtual base::Status signal(const v1::SignalRequest& request) = 0;
  // The function returned is called once when the caller has gone before `done`; empty: nothing to do then.
  virtual std::function<void()> watch(const v1::WatchRequest& request, Replies<v1::Event> replies) = 0;
  virtual void stacks(const v1::StacksRequest& request, Replies<v1::ProcessStack> replies) = 0;
};

class ApiServer {
 public:
  // `handler` is borrowed.
  static std::unique_ptr<ApiServer> start(base::Loop& loop, ApiSocket socket, ApiHandler* handler);
  ~ApiServer();

 private:
  struct State;
  explicit ApiServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcherd
