package check_test
import ("testing";"time";"path/filepath";"fmt";"strings"
"github.com/daybookdev/daybook";"github.com/daybookdev/daybook/check";"github.com/daybookdev/daybook/store/sqlite")
func TestBig(t *testing.T){
 book,err:=sqlite.Open(t.Context(),filepath.Join(t.TempDir(),"b.db"),sqlite.Options{Fast:true}); if err!=nil{t.Fatal(err)}
 var ids []string
 for i:=0;i<20;i++{ rs:=make([]daybook.Request,10000); for k:=range rs{rs[k]=daybook.Request{Queue:"q",Kind:"k",Args:[]byte(`{"a":1,"b":"some text of an ordinary job"}`)}; if k%4==0{rs[k].Key=fmt.Sprint(i,"-",k)}}
  got,err:=book.EnqueueMany(t.Context(),rs); if err!=nil{t.Fatal(err)}; for _,g:=range got{ids=append(ids,g.ID.String())}}
 s,_:=book.StartSession(t.Context(),daybook.SessionRequest{})
 for i:=0;i<10;i++{ c,err:=book.Claim(t.Context(),daybook.ClaimRequest{Session:s.ID,Queues:[]string{"q"},Limit:10000}); if err!=nil{t.Fatal(err)}
  os:=make([]daybook.Outcome,len(c.Jobs)); for k,j:=range c.Jobs{os[k]=daybook.Outcome{Job:j.ID,Owner:daybook.Owner{Session:j.Session,Generation:j.Generation},Kind:daybook.OutcomeSucceeded}}
  if _,err:=book.Finish(t.Context(),os);err!=nil{t.Fatal(err)}}
 for _,full:=range []bool{true,false}{
 t0:=time.Now(); last:=t0; times:=map[string]time.Duration{}
 r,err:=check.Run(t.Context(),book,check.Options{Full:full,Seen:func(n string,_ int64){times[n]+=time.Since(last);last=time.Now()}}); 
 t.Log(full,r.Full,r.Violations,err,time.Since(t0)); for _,i:=range r.Invariants{t.Log(i.Name,i.Walked,times[i.Name])}}
 t0:=time.Now(); a,err:=check.Accepted(t.Context(),book,strings.NewReader(strings.Join(ids,"\n"))); t.Log(a.Accepted,len(a.Missing),err,time.Since(t0))
}
