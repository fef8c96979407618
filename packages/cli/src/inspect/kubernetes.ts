import {
  EtcdError,
  type FieldDescriptor,
  fieldsFromTexts,
  NO_BYTES,
  Reader,
  textOf,
  toBytes,
} from '../../../../src/internal.js';

// The keys of Kubernetes, and the beginnings of their values. The API server writes both: see `NewStorageFactoryConfig`
// in pkg/kubeapiserver/default_storage_factory_builder.go of Kubernetes for the keys, and the packages
// runtime/serializer/protobuf of apimachinery and server/options/encryptionconfig of apiserver for the values.

/** The default prefix of the API server's keys. */
const KEY_PREFIX = '/registry/';

/**
 * The kinds of the resources of Kubernetes, by the part of the key after the prefix. The part is the name of the
 * resource, apart from a few resources with older names. The key of any other resource begins with the group, whose
 * name contains a dot.
 */
const KINDS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    clusterrolebindings: 'ClusterRoleBinding',
    clusterroles: 'ClusterRole',
    clustertrustbundles: 'ClusterTrustBundle',
    certificatesigningrequests: 'CertificateSigningRequest',
    configmaps: 'ConfigMap',
    controllerrevisions: 'ControllerRevision',
    controllers: 'ReplicationController',
    cronjobs: 'CronJob',
    csidrivers: 'CSIDriver',
    csinodes: 'CSINode',
    csistoragecapacities: 'CSIStorageCapacity',
    daemonsets: 'DaemonSet',
    deployments: 'Deployment',
    deviceclasses: 'DeviceClass',
    endpointslices: 'EndpointSlice',
    events: 'Event',
    flowschemas: 'FlowSchema',
    horizontalpodautoscalers: 'HorizontalPodAutoscaler',
    ingress: 'Ingress',
    ingressclasses: 'IngressClass',
    ipaddresses: 'IPAddress',
    jobs: 'Job',
    leasecandidates: 'LeaseCandidate',
    leases: 'Lease',
    limitranges: 'LimitRange',
    masterleases: 'Endpoints',
    minions: 'Node',
    mutatingadmissionpolicies: 'MutatingAdmissionPolicy',
    mutatingadmissionpolicybindings: 'MutatingAdmissionPolicyBinding',
    mutatingwebhookconfigurations: 'MutatingWebhookConfiguration',
    namespaces: 'Namespace',
    networkpolicies: 'NetworkPolicy',
    persistentvolumeclaims: 'PersistentVolumeClaim',
    persistentvolumes: 'PersistentVolume',
    poddisruptionbudgets: 'PodDisruptionBudget',
    pods: 'Pod',
    podtemplates: 'PodTemplate',
    priorityclasses: 'PriorityClass',
    prioritylevelconfigurations: 'PriorityLevelConfiguration',
    ranges: 'RangeAllocation',
    replicasets: 'ReplicaSet',
    resourceclaims: 'ResourceClaim',
    resourceclaimtemplates: 'ResourceClaimTemplate',
    resourcequotas: 'ResourceQuota',
    resourceslices: 'ResourceSlice',
    rolebindings: 'RoleBinding',
    roles: 'Role',
    runtimeclasses: 'RuntimeClass',
    secrets: 'Secret',
    serviceaccounts: 'ServiceAccount',
    servicecidrs: 'ServiceCIDR',
    'services/endpoints': 'Endpoints',
    'services/specs': 'Service',
    statefulsets: 'StatefulSet',
    storageclasses: 'StorageClass',
    storageversionmigrations: 'StorageVersionMigration',
    validatingadmissionpolicies: 'ValidatingAdmissionPolicy',
    validatingadmissionpolicybindings: 'ValidatingAdmissionPolicyBinding',
    validatingwebhookconfigurations: 'ValidatingWebhookConfiguration',
    volumeattachments: 'VolumeAttachment',
    volumeattributesclasses: 'VolumeAttributesClass',
    'apiextensions.k8s.io/customresourcedefinitions': 'CustomResourceDefinition',
    'apiregistration.k8s.io/apiservices': 'APIService',
  }),
);

/** What the key of an object, or of all objects of a resource or of a namespace, says. */
interface KubernetesKey {
  /** The kind, such as `Pod`, or the resource and its group, such as `widgets.example.com`, if the kind is unknown. */
  readonly kind: string;
  /** Undefined for an object outside of all namespaces, such as a node, and for all objects of a resource. */
  readonly namespace: string | undefined;
  /** Empty for the prefix of all objects of a resource or of a namespace. */
  readonly name: string;
}

/** Reads a key of Kubernetes. Returns undefined if the key is not one. */
function parseKey(key: string): KubernetesKey | undefined {
  if (!key.startsWith(KEY_PREFIX)) return undefined;
  const parts = key.slice(KEY_PREFIX.length).split('/');
  const [first = '', second = ''] = parts;
  const pair = `${first}/${second}`;
  // Only the name of a group contains a dot.
  const hasGroup = first.includes('.');
  const isPair = hasGroup || KINDS.has(pair);
  const kind = KINDS.get(isPair ? pair : first) ?? (hasGroup ? `${second}.${first}` : first);
  // The number of the remaining parts tells whether there is a namespace, because names contain no slash.
  const rest = parts.slice(isPair ? 2 : 1);
  const namespace = rest.length === 2 ? rest[0] : undefined;
  const name = rest.at(-1);
  if (kind === '' || name === undefined || namespace === '' || rest.length > 2) return undefined;
  return { kind, namespace, name };
}

/**
 * Names the object of a key of Kubernetes by its kind, namespace and name, such as `Pod default/web` or `Node
 * worker-1`. For the prefix of several objects, returns for example `every Pod in default`. Returns undefined for any
 * other key.
 */
export function kubernetesName(key: string): string | undefined {
  const parsed = parseKey(key);
  if (parsed === undefined) return undefined;
  const { kind, namespace, name } = parsed;
  if (name === '') return namespace === undefined ? `every ${kind}` : `every ${kind} in ${namespace}`;
  return namespace === undefined ? `${kind} ${name}` : `${kind} ${namespace}/${name}`;
}

/**
 * The prefix of a value in protobuf: https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding.
 */
const PROTOBUF_PREFIX = 'k8s\0';
export const PROTOBUF_PREFIX_BYTES = PROTOBUF_PREFIX.length;
/** The type of the message after this prefix. */
export const ENVELOPE = 'k8s.io.apimachinery.pkg.runtime.Unknown';
const TYPE_META = 'k8s.io.apimachinery.pkg.runtime.TypeMeta';

/** The fields of the messages of the envelope. The object itself is the bytes of `raw`. */
export const ENVELOPE_FIELDS: Readonly<Record<string, readonly FieldDescriptor[]>> = fieldsFromTexts({
  [ENVELOPE]: `m1typeMeta:${TYPE_META} y2raw s3contentEncoding s4contentType`,
  [TYPE_META]: 's1apiVersion s2kind',
});

/** Maximum number of bytes at the beginning of a value in which its type, or its encryption, stands. */
const MAX_BEGINNING = 1_024;

/** Whether the value has the prefix of protobuf, and belongs to a key of Kubernetes. */
export function isProtobufValue(key: Uint8Array, value: Uint8Array): boolean {
  return (
    textOf(value.subarray(0, PROTOBUF_PREFIX_BYTES)) === PROTOBUF_PREFIX &&
    textOf(key.subarray(0, KEY_PREFIX.length)) === KEY_PREFIX
  );
}

/**
 * Describes the value of a key of Kubernetes, such as `v1 Pod, 812 bytes of protobuf`, from the beginning of the value.
 * Returns undefined for any other key, and if the beginning does not say what the value is. With `json` set to false,
 * returns undefined for JSON, too, because people can read it.
 */
export function kubernetesValue(key: string, value: Uint8Array, { json = true } = {}): string | undefined {
  if (!key.startsWith(KEY_PREFIX)) return undefined;
  const beginning = textOf(value.subarray(0, MAX_BEGINNING));
  if (beginning.startsWith(PROTOBUF_PREFIX)) return protobufValue(value);
  const [prefix, provider, version, name] = /^k8s:enc:([^:]+):(v\d+):([^:]+):/.exec(beginning) ?? [];
  if (prefix !== undefined) {
    const left = value.length - toBytes(prefix, 'value').length;
    return `encrypted by ${provider} ${version} with ${name}, ${bytesText(left)}`;
  }
  for (const pattern of json ? JSON_BEGINNINGS : []) {
    const { kind, apiVersion } = pattern.exec(beginning)?.groups ?? {};
    if (kind !== undefined) return `${apiVersion} ${kind}, ${bytesText(value.length)} of JSON`;
  }
  return undefined;
}

/** The beginnings of values in JSON: that of Go structures, and that of custom resources, whose fields are sorted. */
const JSON_BEGINNINGS = [
  /^\{"kind":"(?<kind>[^"\\]+)","apiVersion":"(?<apiVersion>[^"\\]+)"/,
  /^\{"apiVersion":"(?<apiVersion>[^"\\]+)","kind":"(?<kind>[^"\\]+)"/,
];

/** Returns undefined if the envelope is malformed. */
function protobufValue(value: Uint8Array): string | undefined {
  try {
    const envelope = valuesIn(value, PROTOBUF_PREFIX_BYTES);
    const type = valuesIn(envelope.get(1) ?? NO_BYTES);
    const textIn = (bytes: Uint8Array | undefined): string => textOf(bytes ?? NO_BYTES);
    const [apiVersion, kind] = [textIn(type.get(1)), textIn(type.get(2))];
    if (kind === '') return undefined;
    const size = bytesText(envelope.get(2)?.length ?? 0);
    return `${apiVersion} ${kind}, ${size} of ${textIn(envelope.get(4)) || 'protobuf'}`.trimStart();
  } catch (error) {
    if (error instanceof EtcdError) return undefined;
    throw error;
  }
}

/**
 * Returns the values of a message's fields that consist of bytes, by the number of the field. If a field occurs several
 * times, the last value counts.
 *
 * @throws EtcdError with reason `MalformedMessage` if the message is malformed.
 */
function valuesIn(message: Uint8Array, start = 0): ReadonlyMap<number, Uint8Array> {
  const reader = new Reader(message, ENVELOPE, start);
  const found = new Map<number, Uint8Array>();
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if ((tag & 7) === 2) found.set(tag >>> 3, reader.bytes());
    else reader.skip(tag);
  }
  return found;
}

function bytesText(count: number): string {
  return `${count.toLocaleString('en')} ${count === 1 ? 'byte' : 'bytes'}`;
}
