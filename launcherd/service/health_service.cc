#include "launcherd/service/health_service.h"

#include <string_view>
#include <utility>

namespace muster::launcherd::inline service {
namespace {

constexpr std::string_view kService = "muster.v1.Launcher";

bool is_known(const std::string& service) {
  return service.empty() || service == kService;
}

HealthService::Response response_of(HealthService::Response::ServingStatus status) {
  HealthService::Response response;
  response.set_status(status);
  return response;
}

}  // namespace

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context, const Request* request,
                                               Response* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  if (is_known(request->service())) {
    response->set_status(Response::SERVING);
    reactor->Finish(grpc::Status::OK);
  } else {
    reactor->Finish({grpc::StatusCode::NOT_FOUND, "unknown service"});
  }
  return reactor;
}

grpc::ServerWriteReactor<HealthService::Response>* HealthService::Watch(grpc::CallbackServerContext*,
                                                                        const Request* request) {
  auto slot = std::make_shared<std::weak_ptr<Call>>();
  auto call = std::make_shared<Call>([this, slot] {
    const std::lock_guard lock(mutex_);
    watchers_.erase(slot->lock());
  });
  *slot = call;
  call->begin();
  call->send(response_of(is_known(request->service()) ? Response::SERVING : Response::SERVICE_UNKNOWN));
  const std::lock_guard lock(mutex_);
  if (is_closed_) {
    call->finish({grpc::StatusCode::UNAVAILABLE, "the launcher is shutting down"});
  } else {
    watchers_.insert(call);
  }
  return call.get();
}

void HealthService::close() {
  std::set<std::shared_ptr<Call>> watchers;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    watchers = std::exchange(watchers_, {});
  }
  for (const auto& call : watchers) {
    call->send(response_of(Response::NOT_SERVING));
    call->finish({grpc::StatusCode::UNAVAILABLE, "the launcher is shutting down"});
  }
}

}  // namespace muster::launcherd::service
