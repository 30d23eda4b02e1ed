// Serves launcher.proto on a Unix socket, to processes of our own user. The gRPC server behind it is made when the
// first one connects: a job that nobody asks about pays for a listening socket only.
//
// Created, used and destroyed on the loop thread; gRPC's threads only translate and post.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/status.h"
#include "launcherd/service/api_socket.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd {

struct ApiHandlers {
  // Loop thread. `send` and `done` may be called later, on the loop thread, `done` last; both do nothing when the
  // caller has gone.
  std::function<void(const v1::StacksRequest& request, std::function<void(v1::ProcessStack)> send,
                     std::function<void(const base::Status&)> done)>
      stacks;
};

class ApiServer {
 public:
  static std::unique_ptr<ApiServer> start(base::Loop& loop, ApiSocket socket, ApiHandlers handlers);
  ~ApiServer();

 private:
  struct State;
  explicit ApiServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcherd
