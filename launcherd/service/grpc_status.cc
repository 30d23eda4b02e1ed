#include "launcherd/service/grpc_status.h"

#include "base/strings.h"

namespace muster::launcherd {

grpc::Status to_grpc(const base::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), base::valid_utf8(status.message())};
}

}  // namespace muster::launcherd
