// HealthService is gRPC's health service. It reports SERVING until close(). Private to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <set>

#include "launcherd/service/stream_call.h"
#include "proto/wire/health.grpc.pb.h"

namespace muster::launcherd::inline service {

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  using Request = grpc::health::v1::HealthCheckRequest;
  using Response = grpc::health::v1::HealthCheckResponse;

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context, const Request* request,
                                  Response* response) override;
  grpc::ServerWriteReactor<Response>* Watch(grpc::CallbackServerContext* context, const Request* request) override;

  // Reports to all watchers that the launcher no longer serves, and ends their calls.
  void close();

 private:
  using Call = StreamCall<Response>;

  std::mutex mutex_;
  std::set<std::shared_ptr<Call>> watchers_;  // guarded by mutex_, like the next member
  bool is_closed_ = false;
};

}  // namespace muster::launcherd::service
