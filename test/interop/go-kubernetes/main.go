// Program kubernetes ENDPOINT stores objects with the storage of the Kubernetes API server, and deletes some of them.
package main

import (
	"context"
	"crypto/aes"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/value"
	aestransformer "k8s.io/apiserver/pkg/storage/value/encrypt/aes"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
)

const eventSeconds = 60

// resource is where and how the API server stores the objects of one type.
type resource struct {
	prefix      string
	newObject   func() runtime.Object
	newList     func() runtime.Object
	codec       runtime.Codec
	transformer value.Transformer
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client := must(kubernetes.New(clientv3.Config{Endpoints: []string{os.Args[1]}, Logger: zap.NewNop()}))
	defer client.Close()
	inProtobuf, plain := protobufCodec(), identity.NewEncryptCheckTransformer()
	inJSON := unstructured.UnstructuredJSONScheme.(runtime.Codec)
	block := must(aes.NewCipher([]byte("an AES key with 32 bytes is here")))
	encrypted := value.NewPrefixTransformers(nil, value.PrefixTransformer{
		Prefix:      []byte("k8s:enc:aescbc:v1:key1:"),
		Transformer: aestransformer.NewCBCTransformer(block),
	})

	pods := open(client, resource{"/pods/", func() runtime.Object { return &corev1.Pod{} }, func() runtime.Object { return &corev1.PodList{} }, inProtobuf, plain})
	list := &corev1.PodList{}
	check(pods.GetList(ctx, "/pods/", storage.ListOptions{Predicate: storage.Everything, Recursive: true}, list))
	watch := must(pods.Watch(ctx, "/pods/", storage.ListOptions{Predicate: storage.Everything, Recursive: true, ResourceVersion: list.ResourceVersion}))
	check(pods.Create(ctx, "/pods/default/web", &corev1.Pod{ObjectMeta: named("web")}, &corev1.Pod{}, 0))
	check(pods.GuaranteedUpdate(ctx, "/pods/default/web", &corev1.Pod{}, false, nil, storage.SimpleUpdate(func(old runtime.Object) (runtime.Object, error) {
		pod := old.(*corev1.Pod)
		pod.Spec.NodeName = "worker-1"
		return pod, nil
	}), nil))
	check(pods.GetList(ctx, "/pods/default/", storage.ListOptions{Predicate: storage.Everything, Recursive: true}, list))
	check(pods.Delete(ctx, "/pods/default/web", &corev1.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))
	for range 3 {
		<-watch.ResultChan()
	}
	watch.Stop()

	nodes := open(client, resource{"/minions/", func() runtime.Object { return &corev1.Node{} }, nil, inProtobuf, plain})
	check(nodes.Create(ctx, "/minions/worker-1", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}, &corev1.Node{}, 0))
	services := open(client, resource{"/services/specs/", func() runtime.Object { return &corev1.Service{} }, nil, inProtobuf, plain})
	check(services.Create(ctx, "/services/specs/default/api", &corev1.Service{ObjectMeta: named("api")}, &corev1.Service{}, 0))
	events := open(client, resource{"/events/", func() runtime.Object { return &corev1.Event{} }, nil, inProtobuf, plain})
	check(events.Create(ctx, "/events/default/web.1", &corev1.Event{ObjectMeta: named("web.1")}, &corev1.Event{}, eventSeconds))
	secrets := open(client, resource{"/secrets/", func() runtime.Object { return &corev1.Secret{} }, nil, inProtobuf, encrypted})
	check(secrets.Create(ctx, "/secrets/default/token", &corev1.Secret{ObjectMeta: named("token")}, &corev1.Secret{}, 0))

	widgets := open(client, resource{"/example.com/widgets/", func() runtime.Object { return &unstructured.Unstructured{} }, nil, inJSON, plain})
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	widget.SetNamespace("default")
	widget.SetName("w1")
	check(widgets.Create(ctx, "/example.com/widgets/default/w1", widget, &unstructured.Unstructured{}, 0))
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

func open(client *kubernetes.Client, of resource) storage.Interface {
	versioner := storage.APIObjectVersioner{}
	decoder := etcd3.NewDefaultDecoder(of.codec, versioner)
	group := schema.GroupResource{Resource: of.prefix}
	lease := etcd3.NewDefaultLeaseManagerConfig()
	return must(etcd3.New(client, nil, of.codec, of.newObject, of.newList, "/registry", of.prefix, group, of.transformer, lease, decoder, versioner))
}

func protobufCodec() runtime.Codec {
	scheme := runtime.NewScheme()
	check(corev1.AddToScheme(scheme))
	inProtobuf := protobuf.NewSerializer(scheme, scheme)
	return serializer.NewCodecFactory(scheme).CodecForVersions(inProtobuf, inProtobuf, corev1.SchemeGroupVersion, corev1.SchemeGroupVersion)
}

func must[T any](result T, err error) T {
	check(err)
	return result
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
