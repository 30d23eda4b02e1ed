// A connection to a launcher that several ApiClients use. Opening one costs gRPC more than a call: threads, and a
// connection that the launcher has to check. Private to this folder, except share_connection() (launcher_address.h).
// gRPC's threads live as long as the connection. They block the signals that its first caller blocks.
//
// Thread: any.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "launcherd/service/launcher_address.h"

namespace muster::launcherd::inline service {

class ApiConnection {
 public:
  // Returns the channel that is open, or opens one. `address` is the same at each call.
  // Errors: UNAVAILABLE if nothing answers; what is wrong with the files of TLS, or with the owner of the socket.
  base::Result<std::shared_ptr<grpc::Channel>> channel(const LauncherAddress& address,
                                                       std::chrono::milliseconds patience);
  // The launcher no longer answers on this channel: the next call of channel() opens another one.
  void lost(const std::shared_ptr<grpc::Channel>& channel);

 private:
  std::mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace muster::launcherd::service
