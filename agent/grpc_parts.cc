// Registers only the parts of gRPC that the agent needs. This makes the agent 3 MB smaller.
//
// gRPC 1.51 registers its resolvers, balancers and filters in two functions. Each function has an object file of its
// own in libgrpc.a. This file defines both functions, so the linker takes neither object file. It also leaves out
// what only those two refer to: xDS, RLS, DNS, balancing over many servers, and Google's cloud. The agent needs none
// of this, because it connects to addresses and descriptors with one server behind each.
// Other versions of gRPC are linked whole (agent/CMakeLists.txt). Keep gRPC's order of calls, because it is the order
// of the filters.
// Names: those of gRPC's src/core/plugin_registry.
#include <grpc/grpc_security.h>

// gRPC's C++ library refers to these functions. gRPC's own versions would link an HTTP client and the signatures of
// cloud services, so replace them.
extern "C" grpc_channel_credentials* grpc_google_default_credentials_create(grpc_call_credentials* /*call*/) {
  return nullptr;
}

extern "C" grpc_call_credentials* grpc_external_account_credentials_create(const char* /*json*/,
                                                                           const char* /*scopes*/) {
  return nullptr;
}

namespace grpc_core {

class CoreConfiguration {
 public:
  class Builder;
};

// NOLINTBEGIN(readability-identifier-naming)
void BuildCoreConfiguration(CoreConfiguration::Builder* builder);
void RegisterExtraFilters(CoreConfiguration::Builder* builder);

void RegisterHttpConnectHandshaker(CoreConfiguration::Builder* builder);
void RegisterTCPConnectHandshaker(CoreConfiguration::Builder* builder);
void RegisterPickFirstLbPolicy(CoreConfiguration::Builder* builder);
void BuildClientChannelConfiguration(CoreConfiguration::Builder* builder);
void SecurityRegisterHandshakerFactories(CoreConfiguration::Builder* builder);
void RegisterClientAuthorityFilter(CoreConfiguration::Builder* builder);
void RegisterChannelIdleFilters(CoreConfiguration::Builder* builder);
void RegisterHttpFilters(CoreConfiguration::Builder* builder);
void RegisterDeadlineFilter(CoreConfiguration::Builder* builder);
void RegisterMessageSizeFilter(CoreConfiguration::Builder* builder);
void RegisterServiceConfigChannelArgFilter(CoreConfiguration::Builder* builder);
void RegisterResourceQuota(CoreConfiguration::Builder* builder);
void RegisterSockaddrResolver(CoreConfiguration::Builder* builder);
void RegisterSecurityFilters(CoreConfiguration::Builder* builder);
void RegisterBuiltins(CoreConfiguration::Builder* builder);

}  // namespace grpc_core

namespace grpc_event_engine::experimental {

void RegisterEventEngineChannelArgPreconditioning(grpc_core::CoreConfiguration::Builder* builder);

}  // namespace grpc_event_engine::experimental

namespace grpc_core {

void BuildCoreConfiguration(CoreConfiguration::Builder* builder) {
  grpc_event_engine::experimental::RegisterEventEngineChannelArgPreconditioning(builder);
  RegisterHttpConnectHandshaker(builder);
  RegisterTCPConnectHandshaker(builder);
  RegisterPickFirstLbPolicy(builder);
  BuildClientChannelConfiguration(builder);
  SecurityRegisterHandshakerFactories(builder);
  RegisterClientAuthorityFilter(builder);
  RegisterChannelIdleFilters(builder);
  RegisterHttpFilters(builder);
  RegisterDeadlineFilter(builder);
  RegisterMessageSizeFilter(builder);
  RegisterServiceConfigChannelArgFilter(builder);
  RegisterResourceQuota(builder);
  RegisterSockaddrResolver(builder);
  RegisterSecurityFilters(builder);
  RegisterExtraFilters(builder);
  RegisterBuiltins(builder);
}

void RegisterExtraFilters(CoreConfiguration::Builder* /*builder*/) {}
// NOLINTEND(readability-identifier-naming)

}  // namespace grpc_core
