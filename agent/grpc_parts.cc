// Which parts of gRPC the agent registers, and so links: 3 MB less than all of them.
//
// gRPC 1.51 registers its resolvers, balancers and filters in two functions, each with an object of its own in
// libgrpc.a. These are linked instead, and the linker leaves in the archive what only those two need: xDS, RLS, DNS,
// balancing over many servers, Google's cloud. The agent connects to addresses and to descriptors, with one server
// behind each. Other versions of gRPC are linked whole (agent/CMakeLists.txt). The order is gRPC's: it is that of the
// filters.
//
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
